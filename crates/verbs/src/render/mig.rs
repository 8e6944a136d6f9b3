//! MIG profiles, instances and planned changes as lists: `gpool mig list` and `gpool mig plan`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_model::Bytes;
use gpool_wire::{MigInstance, MigProfile, MigStep};

use super::gpus::device_state;

/// Profiles of GPUs, with their instances.
pub const MIG: Noun<MigProfile> = Noun {
    columns: COLUMNS,
    table: &["node", "gpu", "profile", "memory", "slices", "sms", "free", "instances"],
    wide: &["node", "gpu", "profile", "memory", "slices", "sms", "free", "places", "instances"],
    name: |it| format!("{}:{} {}", it.node, it.gpu, it.profile),
    keys: gpool_wire::keys::keys::<MigProfile>,
};

pub const PLAN: Noun<MigStep> = Noun {
    columns: STEPS,
    table: &["node", "gpu", "change", "profile", "instance", "job"],
    wide: &["node", "pool", "gpu", "change", "profile", "instance", "job"],
    name: |it| format!("{}:{} {}", it.node, it.gpu, it.profile),
    keys: gpool_wire::keys::keys::<MigStep>,
};

const STEPS: &[Column<MigStep>] = &[
    Column { name: "node", head: "NODE", cell: |it, _| Cell::new(&it.node) },
    Column { name: "pool", head: "POOL", cell: |it, _| Cell::new(&it.pool) },
    Column { name: "gpu", head: "GPU", cell: |it, _| Cell::new(&it.gpu.to_string()) },
    Column { name: "change", head: "CHANGE", cell: |it, _| Cell::new(&it.change) },
    Column { name: "profile", head: "PROFILE", cell: |it, _| Cell::new(&it.profile) },
    Column {
        name: "instance",
        head: "INSTANCE",
        cell: |it, _| Cell::new(&it.instance.map_or_else(String::new, |index| index.to_string())),
    },
    Column { name: "job", head: "FOR JOB", cell: |it, _| Cell::new(&it.job) },
];

const COLUMNS: &[Column<MigProfile>] = &[
    Column { name: "node", head: "NODE", cell: |it, _| Cell::new(&it.node) },
    Column { name: "gpu", head: "GPU", cell: |it, _| Cell::new(&it.gpu.to_string()) },
    Column { name: "profile", head: "PROFILE", cell: |it, _| Cell::new(&it.profile) },
    Column {
        name: "memory",
        head: "MEMORY",
        cell: |it, _| Cell::new(&Bytes::new(it.memory).to_string()),
    },
    Column {
        name: "slices",
        head: "SLICES",
        cell: |it, _| Cell::new(&it.compute_slices.to_string()),
    },
    Column { name: "sms", head: "SMs", cell: |it, _| Cell::new(&it.multiprocessors.to_string()) },
    Column {
        name: "free",
        head: "FREE",
        cell: |it, _| Cell::new(&format!("{} of {}", it.n_free, it.n_max)),
    },
    Column {
        name: "places",
        head: "PLACES",
        cell: |it, _| {
            let starts: Vec<String> = it.placements.iter().map(u32::to_string).collect();
            Cell::new(&format!("{}:{}", starts.join(","), it.memory_slices))
        },
    },
    Column {
        name: "instances",
        head: "INSTANCES",
        cell: |it, _| {
            let all: Vec<String> = it.instances.iter().map(instance).collect();
            Cell::new(&all.join(", ")).whole()
        },
    },
];

/// An instance with its state: `1000 busy (job 3)`.
fn instance(it: &MigInstance) -> String {
    let state = device_state(it.state);
    match (it.index, &it.job) {
        (Some(index), Some(job)) => format!("{index} {state} (job {job})"),
        (Some(index), None) => format!("{index} {state}"),
        (None, _) => format!("one at {} without compute instance", it.start),
    }
}
