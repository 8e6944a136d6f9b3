//! Generators of random clusters and steps, for property tests. Everything shrinks towards one node
//! with one device and one small job.

use std::fmt;

use gpool_model::{
    Bytes, DependencyKind, DeviceStrategy, Gang, GpuRequest, MilliCpu, Millis, OrderKey, Outcome,
    PlannedStarts, Policy, PoolName,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::reserve_step::ReserveSeed;
use crate::situation::Situation;
use crate::stream::{DeviceChange, JobSeed, Step};

/// A cluster and its steps.
#[derive(Clone)]
pub struct Case {
    /// The initial state: nodes without jobs.
    pub start: Situation,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl fmt::Debug for Case {
    /// The scenario, then a line for each step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.start)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step:?}"))
    }
}

/// A number of cases that are the same in every run, so a failure is due to a change.
/// `PROPTEST_RNG_SEED` selects other cases, and `PROPTEST_CASES` their number.
#[must_use]
pub fn config(cases: u32) -> ProptestConfig {
    let from_environment = ProptestConfig::default();
    let rng_seed = match from_environment.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        RngSeed::Fixed(seed) => RngSeed::Fixed(seed),
    };
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => from_environment.cases,
        None => cases,
    };
    // A failing case becomes a scenario or a test, not a file of seeds.
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..from_environment }
}

/// Clusters with up to `n_steps_max` steps. Most have any kinds of steps; others are crowded, which
/// causes many evictions.
pub fn cases(n_steps_max: usize) -> impl Strategy<Value = Case> {
    let any = (situations(), vec(steps(), 1..=n_steps_max));
    let crowded = (crowded(), vec(steps_of_crowds(), 1..=n_steps_max));
    prop_oneof![2 => any, 1 => crowded].prop_map(|(start, steps)| Case { start, steps })
}

/// Cases without projects, in a queue order by attained GPU time.
pub fn cases_of_las(n_steps_max: usize) -> impl Strategy<Value = Case> {
    use OrderKey::{Age, Attained, Gpus, Priority};
    let orders = prop::sample::select(vec![
        vec![Priority, Attained, Age],
        vec![Attained, Priority, Gpus],
        vec![Attained, Gpus, Priority],
        vec![Attained, Age],
    ]);
    (cases(n_steps_max), orders, 1u32..=90).prop_map(|(mut case, order, min_run)| {
        case.start.projects.clear();
        case.start.policy.order = order;
        case.start.policy.min_run = Millis::from_mins(min_run);
        case
    })
}

/// The GPU models of clusters.
const MODELS: [&str; 4] = ["h100-80g", "a100-40g", "a100-80g", "t4-16g"];

/// GPUs that are divided into MIG instances.
const DIVIDED: [&str; 5] = [
    "h100-80g/3g.40gb+2g.20gb+1g.10gb",
    "h100-80g/1g.10gb+1g.10gb+1g.10gb",
    "a100-80g/3g.40gb+4g.40gb",
    "a100-40g/3g.20gb+1g.5gb+1g.10gb",
    "h100-80g/7g.80gb",
];

/// Clusters of one to four nodes without jobs, under all kinds of policies.
pub fn situations() -> impl Strategy<Value = Situation> {
    let nodes = prop_oneof![3 => vec(node(), 1..=1), 2 => vec(node(), 2..=4)];
    let rules = (preset(), order(), 1u32..=48, strategy(), planned_starts());
    let of_pool = option::weighted(0.3, (order(), 1u32..=48, strategy(), planned_starts()));
    (nodes, projects(), rules, of_pool).prop_map(|(nodes, projects, rules, of_pool)| {
        let (preset, order, hours, strategy, planned_starts) = rules;
        let mut text = projects;
        for (at, node) in nodes.iter().enumerate() {
            let ssd = if at == 1 { "  label ssd" } else { "" };
            let labels = format!("  label rack=r{}{ssd}", at % 2);
            let node = node.replace("NODE", &format!("n{at}"));
            text.push_str(&node.replacen('\n', &format!("{labels}\n"), 1));
        }
        let mut situation =
            Situation::parse(&text).expect("nodes are written as the parser reads them");
        situation.policy = Policy::from_preset(preset).expect("it is one of the presets");
        situation.policy.order = order;
        situation.policy.escalate_after = Millis::from_hours(hours);
        situation.policy.device_strategy = strategy;
        situation.policy.planned_starts = planned_starts;
        if let Some((order, hours, device_strategy, planned_starts)) = of_pool {
            let own = Policy {
                order,
                escalate_after: Millis::from_hours(hours),
                device_strategy,
                planned_starts,
                ..situation.policy.clone()
            };
            situation.policy.pools.insert(PoolName::new("big"), own);
        }
        situation
    })
}

/// Clusters of one to three working nodes, shared by two or three projects.
fn crowded() -> impl Strategy<Value = Situation> {
    let guaranteed = prop::sample::select(&["0", "1", "2", "3"][..]);
    let rules = (prop::sample::select(&["fair", "fair", "priority"][..]), planned_starts());
    let nodes = vec((1u32..=4, prop::bool::weighted(0.8)), 1..=3);
    (vec(guaranteed, 2..=3), nodes, rules).prop_map(
        |(projects, nodes, (preset, planned_starts))| {
            let mut text = String::new();
            for (at, gpus) in projects.iter().enumerate() {
                text.push_str(&format!("project p{at}  gpus {gpus}\n"));
            }
            for (at, (n_devices, pauses)) in nodes.iter().enumerate() {
                let pauses = if *pauses { "  pauses" } else { "" };
                text.push_str(&format!("node n{at}  {n_devices} x h100{pauses}\n"));
            }
            let mut situation =
                Situation::parse(&text).expect("nodes are written as the parser reads them");
            situation.policy = Policy::from_preset(preset).expect("it is one of the presets");
            situation.policy.planned_starts = planned_starts;
            situation
        },
    )
}

/// The lines of projects, mostly none; some are departments of others.
fn projects() -> impl Strategy<Value = String> {
    let part = prop::sample::select(&["0", "1", "2", "3", "0.5", "8", "unlimited"][..]);
    let limit = prop::sample::select(&["0", "1", "2", "4", "1.5"][..]);
    let project = (
        option::weighted(0.8, part),
        option::weighted(0.3, limit),
        option::weighted(0.3, 0u32..=3),
        option::weighted(0.2, 1i32..=2),
        option::weighted(0.4, any::<prop::sample::Index>()),
        option::weighted(0.2, 1u32..=32),
        option::weighted(0.15, 0u32..=3),
        option::weighted(0.15, prop::sample::select(&["0", "1", "2", "1.5"][..])),
        prop_oneof![3 => vec(part_of_gpus(), 0..=0), 1 => vec(part_of_gpus(), 1..=2)],
        option::weighted(0.3, of_the_rest()),
    );
    prop_oneof![1 => vec(project.clone(), 0..=0), 2 => vec(project, 1..=5)].prop_map(|projects| {
        let mut text = String::new();
        for (at, project) in projects.iter().enumerate() {
            let (gpus, limit, weight, priority, parent, cpus, most_jobs, most_gpus, parts, rest) =
                project;
            let parent = parent.filter(|_| at > 0).map(|parent| format!("p{}", parent.index(at)));
            text.push_str(&format!("project p{at}"));
            let words = [
                ("in", parent),
                ("gpus", gpus.map(str::to_owned)),
                ("limit", limit.map(str::to_owned)),
                ("weight", weight.map(|it| it.to_string())),
                ("priority", priority.map(|it| it.to_string())),
                ("cpus", cpus.map(|it| it.to_string())),
                ("user-running", most_jobs.map(|it| it.to_string())),
                ("user-gpus", most_gpus.map(str::to_owned)),
            ];
            for (word, value) in words {
                value.iter().for_each(|value| text.push_str(&format!("  {word} {value}")));
            }
            for (word, amount) in parts.iter().chain(rest) {
                text.push_str(&format!("  {word} {amount}"));
            }
            text.push('\n');
        }
        text
    })
}

/// A guarantee or a limit for one model or in one pool.
fn part_of_gpus() -> impl Strategy<Value = (&'static str, &'static str)> {
    let words = [
        "gpus-of h100",
        "gpus-of a100",
        "limit-of h100",
        "limit-of a100-40g",
        "gpus-in big",
        "limit-in big",
        "gpus-in default",
    ];
    let amounts = ["0", "1", "2", "3", "0.5", "unlimited"];
    (prop::sample::select(words.to_vec()), prop::sample::select(amounts.to_vec()))
}

/// A limit on cores, or a quota for memory.
fn of_the_rest() -> impl Strategy<Value = (&'static str, &'static str)> + Clone {
    prop::sample::select(vec![
        ("cpus-limit", "4"),
        ("cpus-limit", "12.5"),
        ("mem", "16G"),
        ("mem", "unlimited"),
        ("mem-limit", "0"),
        ("mem-limit", "64G"),
    ])
}

/// The lines of one node, called `NODE`.
fn node() -> impl Strategy<Value = String> {
    let model = prop_oneof![
        5 => prop::sample::select(&MODELS[..]),
        1 => prop::sample::select(&DIVIDED[..]),
    ];
    let groups = vec((1u32..=4, model), 1..=2);
    let room = (option::of(1u32..=32), option::of(8u32..=256), option::weighted(0.3, 1u32..=8));
    let links = vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), link()), 0..6);
    let broken = vec((any::<prop::sample::Index>(), device_word()), 0..2);
    let devices = (groups, links, broken);
    let pauses = prop::sample::select(vec!["", "", "  pauses", "  checkpoints"]);
    let words = (prop::bool::weighted(0.1), pauses, option::weighted(0.3, Just("big")));
    (devices, room, words).prop_map(
        |((groups, links, broken), (cpus, memory, tasks), (unreachable, pauses, pool))| {
            let n_devices: u32 = groups.iter().map(|(count, _)| count).sum();
            let n_devices = n_devices as usize;
            let kinds: Vec<String> =
                groups.iter().map(|(count, model)| format!("{count} x {model}")).collect();
            let mut text = format!("node NODE  {}", kinds.join(" + "));
            for (word, amount, unit) in
                [("cpus", cpus, ""), ("mem", memory, "G"), ("tasks", tasks, "")]
            {
                if let Some(amount) = amount {
                    text.push_str(&format!("  {word} {amount}{unit}"));
                }
            }
            pool.iter().for_each(|pool| text.push_str(&format!("  pool {pool}")));
            text.push_str(pauses);
            text.push_str(if unreachable { "  unreachable\n" } else { "\n" });
            for (one, other, link) in links {
                let (one, other) = (one.index(n_devices), other.index(n_devices));
                if one != other {
                    text.push_str(&format!("link NODE[{one},{other}]  {link}\n"));
                }
            }
            for (one, word) in broken {
                text.push_str(&format!("gpu NODE[{}]  {word}\n", one.index(n_devices)));
            }
            text
        },
    )
}

fn link() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["numa", "bridge", "switch", "nvlink 4", "nvlink 12"][..])
}

fn device_word() -> impl Strategy<Value = &'static str> {
    let words = ["unmanaged", "unhealthy", "lost", "unknown", "forbidden", "mig", "occupied"];
    prop::sample::select(words.to_vec())
}

/// Mostly the default preset; `las` has other invariants.
fn preset() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just("fair"),
        3 => prop::sample::select(&["users", "fixed", "priority", "static", "fifo", "valohai"][..]),
    ]
}

fn order() -> impl Strategy<Value = Vec<OrderKey>> {
    use OrderKey::{Age, Escalated, Gpus, Predicted, Priority};
    prop_oneof![
        4 => Just(vec![Priority, Escalated, Gpus, Age]),
        1 => Just(vec![Escalated, Gpus, Age]),
        1 => Just(vec![Age]),
        1 => Just(vec![Priority, Age]),
        1 => Just(vec![Gpus, Escalated]),
        2 => Just(vec![Priority, Escalated, Predicted, Gpus, Age]),
        1 => Just(vec![]),
    ]
}

fn planned_starts() -> impl Strategy<Value = PlannedStarts> {
    prop_oneof![
        4 => Just(PlannedStarts::AtMost(1)),
        1 => Just(PlannedStarts::AtMost(0)),
        2 => (2u32..=4).prop_map(PlannedStarts::AtMost),
        2 => Just(PlannedStarts::All),
    ]
}

fn strategy() -> impl Strategy<Value = DeviceStrategy> {
    let all: Vec<_> = DeviceStrategy::ALL.into_iter().map(|(_, strategy)| strategy).collect();
    prop::sample::select(all)
}

/// Steps; more jobs are submitted than end, so clusters fill up.
pub fn steps() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Succeeded),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::Lost),
    ];
    prop_oneof![
        16 => job().prop_map(Step::Submit),
        5 => (any::<u32>(), outcome).prop_map(|(pick, outcome)| Step::End(pick, outcome)),
        4 => any::<u32>().prop_map(Step::Leave),
        2 => any::<u32>().prop_map(Step::Cancel),
        1 => any::<u32>().prop_map(Step::Hold),
        2 => any::<u32>().prop_map(Step::Release),
        1 => any::<u32>().prop_map(Step::Requeue),
        2 => (any::<u32>(), any::<u32>(), device_change())
            .prop_map(|(node, device, change)| Step::Device(node, device, change)),
        1 => (any::<u32>(), prop::bool::weighted(0.7))
            .prop_map(|(node, connected)| Step::Connect(node, connected)),
        1 => (any::<u32>(), prop::bool::weighted(0.4))
            .prop_map(|(node, is_drained)| Step::Drain(node, is_drained)),
        1 => reservation().prop_map(Step::Reserve),
        2 => any::<u32>().prop_map(Step::Unreserve),
        1 => strategy().prop_map(Step::Strategy),
        1 => (0u64..48 * 3_600_000).prop_map(|length| Step::Pass(Millis::new(length))),
        5 => (0u64..7_200_000).prop_map(|length| Step::Pass(Millis::new(length))),
    ]
}

/// Steps without failures: small, mostly preemptible jobs.
fn steps_of_crowds() -> impl Strategy<Value = Step> {
    let gpus = prop::sample::select(&["1", "1", "2", "0.5", "0.25"][..]);
    let priority = prop::sample::select(&[0, 0, 0, 5, -5][..]);
    let limit = option::weighted(0.6, 10u32..=600);
    let charged = (any::<u32>(), prop::bool::weighted(0.85));
    let job = (gpus, priority, limit, charged).prop_map(|(gpus, priority, limit, charged)| {
        let (project, is_preemptible) = charged;
        JobSeed {
            gpus: GpuRequest::parse(gpus).expect("the requests of the list are valid"),
            cpus: None,
            memory: None,
            limit: limit.map(Millis::from_mins),
            priority,
            behind: Millis::ZERO,
            is_held: false,
            after: None,
            gang: gang(project),
            project,
            is_preemptible,
        }
    });
    prop_oneof![
        8 => job.prop_map(Step::Submit),
        3 => any::<u32>().prop_map(|pick| Step::End(pick, Outcome::Succeeded)),
        4 => any::<u32>().prop_map(Step::Leave),
        3 => (0u64..7_200_000).prop_map(|length| Step::Pass(Millis::new(length))),
    ]
}

/// A reservation within two days, for hours or until it is released.
fn reservation() -> impl Strategy<Value = ReserveSeed> {
    let hours = |most: u32| (0..most).prop_map(Millis::from_hours);
    let later = prop_oneof![Just(Millis::ZERO), hours(48)];
    let place = (any::<u32>(), option::weighted(0.7, any::<u32>()));
    (place, any::<u32>(), later, option::weighted(0.9, hours(12)), prop::bool::weighted(0.2))
        .prop_map(|((node, device), whom, later, long, recurs)| ReserveSeed {
            node,
            device,
            whom,
            later,
            long,
            recurs,
        })
}

fn device_change() -> impl Strategy<Value = DeviceChange> {
    prop_oneof![
        4 => Just(DeviceChange::Mend),
        1 => Just(DeviceChange::Break),
        1 => Just(DeviceChange::Intrude),
        1 => Just(DeviceChange::Forbid),
        1 => Just(DeviceChange::Divide),
        1 => Just(DeviceChange::Drain),
    ]
}

/// Mostly one task; from the high bits of a number with the project in its low bits.
fn gang(number: u32) -> Gang {
    let (nodes, each) = match number >> 28 {
        12 => return Gang::anywhere(2 + (number >> 27 & 1)).expect("a few tasks"),
        13 => (2, 1),
        14 => (3, 1),
        15 => (1 + (number >> 27 & 1), 2),
        _ => (1, 1),
    };
    Gang::new(nodes, each).expect("a few tasks")
}

fn job() -> impl Strategy<Value = JobSeed> {
    let often = prop::sample::select(
        &["1", "2", "1", "4", "0", "3", "0.5", "0.25", "h100:1", "a100:2"][..],
    );
    let seldom = prop::sample::select(
        &[
            "a100-80g:1",
            "h100|a100:2",
            "t4|a100:1",
            "40G..:1",
            "80G..:2",
            "v100:1",
            "200G..:1",
            "9",
            "2@0.5",
            "1@20G",
            "a100:0.75",
            "2@30G:60G",
            "0.333:1",
            "1g.10gb:1",
            "1g.10gb:2",
            "1g:1",
            "3g|1g:1",
            "h100-3g.40gb:1",
            "mig:1",
            "mig:2",
        ][..],
    );
    let gpus = prop_oneof![2 => often, 1 => seldom];
    let kind =
        prop::sample::select(&[DependencyKind::Ok, DependencyKind::Fail, DependencyKind::End][..]);
    (
        gpus,
        option::weighted(0.4, 1u32..=16),
        option::weighted(0.4, 1u32..=128),
        option::weighted(0.6, 1u32..=600),
        prop_oneof![6 => Just(0), 1 => -1000..=1000i32],
        prop_oneof![9 => Just(0), 1 => 0u64..3_600_000],
        prop::bool::weighted(0.1),
        option::weighted(0.15, (any::<u32>(), kind)),
        (any::<u32>(), prop::bool::weighted(0.6)),
    )
        .prop_map(|(gpus, cpus, memory, limit, priority, behind, is_held, after, charged)| {
            JobSeed {
                gpus: GpuRequest::parse(gpus).expect("the requests of the list are valid"),
                cpus: cpus.map(MilliCpu::from_cores),
                memory: memory.map(Bytes::from_gib),
                limit: limit.map(Millis::from_mins),
                priority,
                behind: Millis::new(behind),
                is_held,
                after,
                gang: gang(charged.0),
                project: charged.0,
                is_preemptible: charged.1,
            }
        })
}
