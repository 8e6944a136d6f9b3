//! The protocol by which server, agent and shepherds start, stop and adopt tasks, explored in full
//! within small bounds: every order of events, with every fault of a budget at every moment. What
//! is explored is the real state machine and the real agent's brain, in the fakes that the
//! simulation has; after every event everything is checked that the simulation checks, and from
//! every state the way back to rest.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use gpool_sim::{Bug, Cluster, Happening, NodeShape, Sim};
use stateright::{Checker, Model, Property};

/// What has to be seen for the exploring to be worth something.
const ENDS: &str = "all jobs end";

/// A run so far.
#[derive(Clone)]
struct State {
    sim: Arc<Sim>,
    /// How often each thing of the budget may still happen.
    left: Vec<u32>,
    fingerprint: (u64, u64),
}

impl State {
    fn new(sim: Sim, left: Vec<u32>) -> Self {
        let fingerprint = sim.fingerprint();
        Self { sim: Arc::new(sim), left, fingerprint }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.left, self.fingerprint).hash(state);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        (&self.left, self.fingerprint) == (&other.left, other.fingerprint)
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.left, self.sim.broken())
    }
}

/// What is explored: jobs, and what may happen to them.
struct Protocol {
    /// What happens first, before anything is chosen.
    setup: Vec<Happening>,
    /// What may happen besides, and how often.
    budget: Vec<(Happening, u32)>,
    /// Whether messages may overtake each other.
    is_disordered: bool,
    bug: Option<Bug>,
}

impl Protocol {
    /// So many jobs for the one device that there is, and faults that each happen once at most.
    fn new(n_jobs: usize, faults: &[&str]) -> Self {
        let line = |line: &str| line.parse::<Happening>().expect("a happening");
        Self {
            setup: vec![line("submit jobs 1 gpus 1 grace 1"); n_jobs],
            budget: faults.iter().map(|fault| (line(fault), 1)).collect(),
            is_disordered: false,
            bug: None,
        }
    }

    /// Explores everything: how many states there are, and the first way to break something.
    fn explore(self) -> (usize, Option<String>) {
        let checker = self.checker().threads(2).spawn_bfs().join();
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

    /// Explores everything, none of which may break anything.
    fn holds(self) -> usize {
        let budget: Vec<String> = self.budget.iter().map(|(what, _)| what.to_string()).collect();
        let (n_states, broken) = self.explore();
        if let Some(broken) = broken {
            panic!("{}: {broken}", budget.join(", "));
        }
        println!("{n_states} states: {}", budget.join(", "));
        n_states
    }
}

#[derive(Clone, PartialEq)]
enum Action {
    /// Something that has to happen sooner or later.
    Work(Happening),
    /// Something of the budget, by its place.
    Chosen(usize, Happening),
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Work(what) | Self::Chosen(_, what) => write!(f, "{what}"),
        }
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let shape = NodeShape { devices: 1, model: 0, mixed: false, cpus: 8, tasks: 8 };
        let mut sim = Sim::new(&Cluster { nodes: vec![shape], batch: 1 }, self.bug);
        for what in &self.setup {
            sim.happen(what);
        }
        vec![State::new(sim, self.budget.iter().map(|(_, most)| *most).collect())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.sim.broken().is_some() {
            return;
        }
        let work = state.sim.possible_work();
        let may = |what: &Happening| self.is_disordered || what.is_first_message();
        actions.extend(work.into_iter().filter(may).map(Action::Work));
        for (at, (what, _)) in self.budget.iter().enumerate() {
            if state.left[at] > 0 && state.sim.is_possible(what) {
                actions.push(Action::Chosen(at, what.clone()));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut sim = (*last.sim).clone();
        let mut left = last.left.clone();
        match &action {
            Action::Work(what) => sim.happen(what),
            Action::Chosen(at, what) => {
                left[*at] -= 1;
                sim.happen(what);
            }
        }
        Some(State::new(sim, left))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is broken", |_, state: &State| state.sim.broken().is_none()),
            Property::always("it comes to rest from here", |_, state: &State| {
                let mut sim = (*state.sim).clone();
                sim.settle();
                sim.broken().is_none() && sim.is_done()
            }),
            Property::sometimes(ENDS, |_, state: &State| state.sim.is_done()),
        ]
    }
}

/// What may go wrong, and what a user or time may do, each in the ways that differ.
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

/// How many faults meet; `GPOOL_EXPLORE_FAULTS=3` explores more, for the better part of an hour.
fn n_faults() -> usize {
    let asked = std::env::var("GPOOL_EXPLORE_FAULTS").ok();
    asked.map_or(2, |asked| asked.parse().expect("GPOOL_EXPLORE_FAULTS is a small number"))
}

/// All ways to choose so many faults, those chosen already before them.
fn choices(chosen: &[&'static str], from: usize, n: usize) -> Vec<Vec<&'static str>> {
    if n == 0 {
        return vec![chosen.to_vec()];
    }
    let add = |at: usize| choices(&[chosen, &FAULTS[at..=at]].concat(), at + 1, n - 1);
    (from..FAULTS.len()).flat_map(add).collect()
}

#[test]
fn every_two_faults_at_every_moment_break_nothing() {
    let each = choices(&[], 0, n_faults());
    let n_states: usize = each.iter().map(|faults| Protocol::new(1, faults).holds()).sum();
    println!("{n_states} states in all");
    assert!(n_states > 200_000, "{n_states} states");
}

#[test]
fn messages_may_overtake_each_other() {
    // Without a device that is taken: as long as news of that can be overtaken the job may be sent
    // there again, each time in another generation, so there is no end to the states.
    for fault in FAULTS.into_iter().filter(|fault| !fault.starts_with("snatch")) {
        let protocol = Protocol { is_disordered: true, ..Protocol::new(1, &[fault]) };
        protocol.holds();
    }
}

#[test]
fn two_jobs_take_turns_on_one_device() {
    for fault in ["kill-server durable 1", "kill-agent", "cancel", "reboot"] {
        Protocol::new(2, &[fault]).holds();
    }
}

#[test]
fn bugs_that_seeds_do_not_find_are_found_here() {
    for bug in Bug::FOR_EXPLORING {
        let faults = ["kill-agent", "snatch becomes 4"];
        let protocol = Protocol { bug: Some(*bug), ..Protocol::new(1, &faults) };
        let (_, broken) = protocol.explore();
        println!("{bug:?}: {}", broken.expect("it is found"));
    }
}
