//! Explores the protocol of server, agent and shepherds that starts, stops and adopts tasks,
//! completely within small bounds: every order of events, with every fault of a budget at every
//! moment. It runs the real state machine and the real agent's logic with the fakes of the
//! simulation. After every event it makes all checks of the simulation, and from every state it
//! follows the way back to rest.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::num::NonZero;
use std::sync::{Arc, Mutex};

use gpool_sim::{Bug, Cluster, Happening, NodeShape, Sim};
use stateright::{Checker, Model, Property};

/// A property that must be reached, or the exploration would prove nothing.
const ENDS: &str = "all jobs end";

/// The state after a run.
#[derive(Clone)]
struct State {
    sim: Arc<Sim>,
    /// How many more faults may happen.
    left: u32,
    fingerprint: (u64, u64),
}

impl State {
    fn new(sim: Sim, left: u32) -> Self {
        let fingerprint = sim.fingerprint();
        Self { sim: Arc::new(sim), left, fingerprint }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.left, self.fingerprint).hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (self.left, self.fingerprint) == (other.left, other.fingerprint)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.left, self.sim.broken())
    }
}

/// The model: jobs, and the events that may happen to them.
struct Protocol {
    /// The first events, before any choice.
    setup: Vec<Happening>,
    /// The faults that may happen.
    faults: Vec<Happening>,
    /// The largest number of faults in one run.
    n_faults: u32,
    /// Whether messages may overtake each other.
    is_disordered: bool,
    /// Whether the agent has a lease.
    has_lease: bool,
    bug: Option<Bug>,
    /// Fingerprints of simulations that come to rest. Runs that reach one of them with different
    /// numbers of faults are different states, but rest in the same way.
    at_rest: Mutex<HashSet<(u64, u64)>>,
}

impl Protocol {
    /// Jobs for the only device, and up to `n_faults` of `faults` in each run. All choices are
    /// explored together, so that a state with several paths is visited once.
    fn new(n_jobs: usize, n_faults: u32, faults: &[&str]) -> Self {
        let line = |line: &str| line.parse::<Happening>().expect("a happening");
        Self {
            setup: vec![line("submit jobs 1 gpus 1 grace 1"); n_jobs],
            faults: faults.iter().map(|fault| line(fault)).collect(),
            n_faults,
            is_disordered: false,
            has_lease: false,
            bug: None,
            at_rest: Mutex::default(),
        }
    }

    /// Explores all states; returns their number, and the first path that breaks something.
    fn explore(self) -> (usize, Option<String>) {
        let n_threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let checker = self.checker().threads(n_threads).spawn_bfs().join();
        let broken = checker.discoveries().into_iter().find(|(name, _)| *name != ENDS);
        let broken = broken.map(|(name, path)| {
            let mut sim = (*path.last_state().sim).clone();
            if sim.broken().is_none() {
                sim.settle();
            }
            let broken = sim.broken().map(ToString::to_string).unwrap_or_default();
            let actions: Vec<String> =
                path.into_actions().iter().map(|action| format!("{action:?}")).collect();
            format!("{name}: {broken}\nafter\n{}", actions.join("\n"))
        });
        assert!(broken.is_some() || checker.discovery(ENDS).is_some(), "no job ends");
        (checker.unique_state_count(), broken)
    }

    /// Explores all states and panics if one of them breaks something.
    fn holds(self) -> usize {
        let what = format!("{} of {} faults", self.n_faults, self.faults.len());
        let (n_states, broken) = self.explore();
        if let Some(broken) = broken {
            panic!("{what}: {broken}");
        }
        println!("{n_states} states: {what}");
        n_states
    }

    /// Whether the simulation comes to rest from a state, as it must.
    fn comes_to_rest(&self, state: &State) -> bool {
        let is_known = |known: &HashSet<(u64, u64)>| known.contains(&state.fingerprint);
        if self.at_rest.lock().is_ok_and(|known| is_known(&known)) {
            return true;
        }
        let mut sim = (*state.sim).clone();
        sim.settle();
        let comes = sim.broken().is_none() && sim.is_done();
        if comes && let Ok(mut known) = self.at_rest.lock() {
            known.insert(state.fingerprint);
        }
        comes
    }
}

#[derive(Clone, PartialEq)]
enum Action {
    /// An event that must happen sooner or later.
    Work(Happening),
    Fault(Happening),
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Work(what) | Self::Fault(what) => write!(f, "{what}"),
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let shape = NodeShape {
            devices: 1,
            model: 0,
            mixed: false,
            cpus: 8,
            tasks: 8,
            moves: false,
            lends: false,
            pauses: false,
            remaps: false,
            fast: 0,
            slow: if self.has_lease { 50 } else { 0 },
            joins_late: false,
        };
        let cluster = Cluster { nodes: vec![shape], batch: 1, leases: self.has_lease };
        let mut sim = Sim::new(&cluster, self.bug);
        for what in &self.setup {
            sim.happen(what);
        }
        vec![State::new(sim, self.n_faults)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.sim.broken().is_some() {
            return;
        }
        let work = state.sim.possible_work();
        let may = |what: &Happening| self.is_disordered || what.is_first_message();
        actions.extend(work.into_iter().filter(may).map(Action::Work));
        if state.left > 0 {
            let possible = self.faults.iter().filter(|what| state.sim.is_possible(what));
            actions.extend(possible.cloned().map(Action::Fault));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut sim = (*last.sim).clone();
        let (what, n_used) = match &action {
            Action::Work(what) => (what, 0),
            Action::Fault(what) => (what, 1),
        };
        sim.happen(what);
        Some(State::new(sim, last.left - n_used))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is broken", |_, state: &State| state.sim.broken().is_none()),
            Property::always("it comes to rest from here", Self::comes_to_rest),
            Property::sometimes(ENDS, |_, state: &State| state.sim.is_done()),
        ]
    }
}

/// Faults, and events caused by users or time, each in its different forms.
const FAULTS: [&str; 17] = [
    "kill-server",
    "kill-server durable 1",
    "doom-server effects 1",
    "stop-server",
    "fail-commit",
    "kill-agent",
    "doom-agent acts 1",
    "kill-shepherd",
    "reboot",
    "reboot lost 1",
    "lose-order",
    "repeat-order",
    "repeat-report",
    "snatch becomes 4",
    "fail-start",
    "cancel",
    "pass ms 6000",
];

/// The number of faults in a run. `GPOOL_EXPLORE_FAULTS=3` explores more, for almost an hour.
fn n_faults() -> u32 {
    let asked = std::env::var("GPOOL_EXPLORE_FAULTS").ok();
    asked.map_or(2, |asked| asked.parse().expect("GPOOL_EXPLORE_FAULTS is a small number"))
}

#[test]
fn every_two_faults_at_every_moment_break_nothing() {
    let n_states = Protocol::new(1, n_faults(), &FAULTS).holds();
    assert!(n_states > 100_000, "{n_states} states");
}

#[test]
fn messages_may_overtake_each_other() {
    // Without device seizures: while reports can be overtaken, the job may be sent there again,
    // each time with a new generation, so that the states never end.
    let faults = FAULTS.into_iter().filter(|fault| !fault.starts_with("snatch"));
    let faults: Vec<&str> = faults.collect();
    Protocol { is_disordered: true, ..Protocol::new(1, 1, &faults) }.holds();
}

/// A fenced job, after the first beat of its agent. The network is divided at any moment, in one
/// direction or both, until the lease is over by every clock or all comes to rest.
fn leased(how: u32, n_faults: u32) -> Protocol {
    let line = |line: &str| line.parse::<Happening>().expect("a happening");
    let mut setup = vec![line("pass ms 100")];
    setup.push(line("submit jobs 1 gpus 1 grace 1 lost 1"));
    let division = format!("part how {how} ms 45000");
    let faults = [&division, "kill-agent", "kill-server durable 1"];
    Protocol { setup, has_lease: true, ..Protocol::new(0, n_faults, &faults) }
}

#[test]
fn a_fenced_job_never_runs_twice_however_the_network_is_divided() {
    for how in 1..=3 {
        leased(how, 1).holds();
    }
    let n_states = leased(1, n_faults()).holds();
    assert!(n_states > 5_000, "{n_states} states");
}

#[test]
fn bugs_of_leases_are_found_here_too() {
    for bug in [Bug::LeaseIgnored, Bug::LateOrderObeyed, Bug::FenceUntold] {
        let (_, broken) = Protocol { bug: Some(bug), ..leased(1, 1) }.explore();
        assert!(broken.is_some(), "{bug:?} is not found");
    }
}

#[test]
fn two_jobs_take_turns_on_one_device() {
    Protocol::new(2, 1, &["kill-server durable 1", "kill-agent", "cancel", "reboot"]).holds();
}

#[test]
fn bugs_that_seeds_do_not_find_are_found_here() {
    for bug in Bug::FOR_EXPLORING {
        let faults = ["kill-agent", "snatch becomes 4"];
        let protocol = Protocol { bug: Some(*bug), ..Protocol::new(1, 2, &faults) };
        let (_, broken) = protocol.explore();
        println!("{bug:?}: {}", broken.expect("it is found"));
    }
}
