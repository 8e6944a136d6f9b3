//! Devices with values that follow from a seed, the device and the minute.

use gpool_history::{DeviceSeries, Use};

/// 2026-01-01 00:00 UTC, in minutes.
pub const START: u32 = 29_453_760;

/// Devices of each node.
const PER_NODE: u32 = 8;
const USERS: u32 = 1000;
const PROJECTS: u32 = 50;
/// Names of jobs.
const JOBS: u32 = 100_000;

/// What a device does for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Idle,
    Training,
    Bursts,
}

/// The devices and their names.
pub struct Fleet {
    n_nodes: u32,
    /// UUIDs, as NVML gives them.
    pub devices: Vec<String>,
    nodes: Vec<String>,
    users: Vec<String>,
    projects: Vec<String>,
    jobs: Vec<String>,
}

impl Fleet {
    pub fn new(n_nodes: u32) -> Self {
        let names = |prefix: &str, n: u32| (0..n).map(|ix| format!("{prefix}{ix:05}")).collect();
        let uuid = |ix: u32| {
            let (a, b) = (mix(u64::from(ix)), mix(!u64::from(ix)));
            format!("GPU-{:08x}-{:04x}-{:04x}-{a:016x}", b >> 32, b >> 16 & 0xffff, b & 0xffff)
        };
        Self {
            n_nodes,
            devices: (0..n_nodes * PER_NODE).map(uuid).collect(),
            nodes: names("node", n_nodes),
            users: names("user", USERS),
            projects: names("project", PROJECTS),
            jobs: names("", JOBS),
        }
    }

    pub fn n_devices(&self) -> u32 {
        self.n_nodes * PER_NODE
    }

    /// The values of a device in base units.
    pub fn values(&self, device: u32, minute: u32) -> [Option<f64>; DeviceSeries::N] {
        let (load, job) = load(device, minute);
        // The level of the job, and noise of each minute and series; both between 0 and 1.
        let level = |series: u64| unit(job ^ series << 56);
        let at = u64::from(device) << 32 | u64::from(minute);
        let noise = |series: u64| unit(at ^ series << 56);
        let around = |series: u64, mean: f64, width: f64| mean + (noise(series) - 0.5) * width;
        let has_activity = !(device / PER_NODE).is_multiple_of(4);
        let activity = |value: f64| has_activity.then_some(value);
        match load {
            Load::Idle => [
                Some(0.0),
                activity(0.0),
                activity(0.0),
                activity(0.0),
                Some(0.6e9),
                Some(around(5, 72.0, 4.0)),
                Some(around(6, 31.0, 1.5)),
                Some(around(7, 38.0, 1.5)),
                Some(345e6),
                Some(0.0),
                Some(0.0),
                Some(0.0),
                Some(0.0),
            ],
            Load::Training => [
                Some(around(0, 0.9 + 0.08 * level(0), 0.04)),
                activity(around(1, 0.5 + 0.3 * level(1), 0.06)),
                activity(around(2, 0.2 + 0.3 * level(2), 0.04)),
                activity(around(3, 0.3 + 0.3 * level(3), 0.04)),
                Some(30e9 + 48e9 * level(4)),
                Some(around(5, 500.0 + 180.0 * level(5), 30.0)),
                Some(around(6, 55.0 + 15.0 * level(6), 2.5)),
                Some(around(7, 70.0 + 15.0 * level(7), 2.5)),
                Some(around(8, 1.7e9 + 0.28e9 * level(8), 40e6)),
                Some(around(9, 0.5e9 + 4e9 * level(9), 0.4e9)),
                Some(around(10, 0.2e9 + 2e9 * level(10), 0.2e9)),
                Some(around(11, 20e9 + 200e9 * level(11), 10e9)),
                Some(1.0),
            ],
            Load::Bursts => {
                let busy = noise(0) * noise(12);
                [
                    Some(busy),
                    activity(busy * (0.3 + 0.3 * noise(1))),
                    activity(busy * 0.3 * noise(2)),
                    activity(busy * 0.5 * noise(3)),
                    Some(10e9 + 40e9 * level(4) + 2e9 * noise(4)),
                    Some(120.0 + busy * 400.0 + 10.0 * noise(5)),
                    Some(40.0 + busy * 20.0 + noise(6)),
                    Some(50.0 + busy * 20.0 + noise(7)),
                    Some(around(8, 1.9e9, 0.1e9)),
                    Some(busy * 2e9 * noise(9)),
                    Some(busy * 1e9 * noise(10)),
                    Some(0.0),
                    Some(1.0),
                ]
            }
        }
    }

    /// The use of all nodes in a minute: one job of each node, or two.
    pub fn uses(&self, minute: u32) -> Vec<Use<'_>> {
        let mut uses = Vec::new();
        for (ix, node) in (0..).zip(&self.nodes) {
            for half in 0..2 {
                let device = ix * PER_NODE + half * PER_NODE / 2;
                let (load, job) = load(device, minute);
                if load == Load::Idle {
                    continue;
                }
                let pick = |names: &'_ [String], shift: u32| {
                    usize::try_from(mix(job) >> shift).unwrap_or(0) % names.len()
                };
                let user = pick(&self.users, 7);
                let at = u64::from(device) << 32 | u64::from(minute);
                uses.push(Use {
                    project: &self.projects[user % self.projects.len()],
                    user: &self.users[user],
                    model: ["H100", "A100", "L40S", "H200"][(ix / 64 % 4) as usize],
                    kind: if load == Load::Training { "batch" } else { "notebook" },
                    node,
                    pool: "batch",
                    job: &self.jobs[pick(&self.jobs, 17)],
                    allocated_ms: 240_000,
                    busy_ms: Some(mix(at) % 240_000),
                    useful_ms: (!ix.is_multiple_of(4)).then(|| mix(!at) % 120_000),
                    energy_j: Some(100_000 + mix(at ^ 1) % 60_000),
                    waited_ms: 0,
                    guaranteed_ms: 0,
                });
            }
        }
        uses
    }
}

/// The load of a device and the number of its job. Half of the nodes have one job, the others one
/// for each half of their devices; jobs run for 20 minutes to a day.
fn load(device: u32, minute: u32) -> (Load, u64) {
    let node = device / PER_NODE;
    let place =
        if node.is_multiple_of(2) { device / PER_NODE * 2 } else { device / (PER_NODE / 2) };
    let seed = mix(u64::from(place));
    let length = 20 + seed % 1420;
    let job = mix(seed ^ ((u64::from(minute) + (seed >> 20)) / length));
    let load = match job % 100 {
        0..15 => Load::Idle,
        15..75 => Load::Training,
        _ => Load::Bursts,
    };
    (load, job)
}

fn unit(seed: u64) -> f64 {
    (mix(seed) >> 40) as f64 / 16_777_216.0
}

/// A hash with good bits. Source: the finalizer of SplitMix64, Steele et al. 2014.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
