//! Names and API units of resource kinds.

use gpool_model::ResourceKind;
use gpool_model::unit::{Bytes, MilliCpu};
use serde_json::{Value, json};

/// Returns an amount as text: `4 CPU cores`, `20 GiB of memory`.
#[must_use]
pub fn amount_words(kind: &ResourceKind, amount: u64) -> String {
    match kind {
        ResourceKind::Cpu => format!("{} {kind}", MilliCpu::new(amount)),
        ResourceKind::Gpu if amount == 1000 => "1 GPU".to_owned(),
        // `MilliCpu` formats any amount of thousandths.
        ResourceKind::GpuModel(model) if amount == 1000 => {
            format!("1 {} GPU", model.to_uppercase())
        }
        ResourceKind::GpuPool(pool) if amount == 1000 => format!("1 GPU in pool {pool}"),
        ResourceKind::Gpu | ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => {
            format!("{} {kind}", MilliCpu::new(amount))
        }
        ResourceKind::Memory | ResourceKind::PauseMemory | ResourceKind::GpuMemory => {
            format!("{} of {kind}", Bytes::new(amount))
        }
        ResourceKind::Node
        | ResourceKind::Tasks
        | ResourceKind::PlainTasks
        | ResourceKind::UserTasks
        | ResourceKind::MigProfile(_) => format!("{amount} {kind}"),
    }
}

/// Returns the word for a kind of resource.
pub fn kind_word(kind: &ResourceKind) -> String {
    match kind {
        ResourceKind::Gpu => "gpus".to_owned(),
        ResourceKind::GpuModel(model) => format!("gpus_of:{model}"),
        ResourceKind::GpuPool(pool) => format!("gpus_in:{pool}"),
        ResourceKind::GpuMemory => "gpu_memory".to_owned(),
        ResourceKind::MigProfile(profile) => format!("mig:{profile}"),
        ResourceKind::Cpu => "cpus".to_owned(),
        ResourceKind::Memory => "mem".to_owned(),
        ResourceKind::PauseMemory => "pause_memory".to_owned(),
        ResourceKind::Tasks => "tasks".to_owned(),
        ResourceKind::PlainTasks => "tasks_without_gpus".to_owned(),
        ResourceKind::UserTasks => "tasks_of_user".to_owned(),
        ResourceKind::Node => "node".to_owned(),
    }
}

/// Returns cores and devices as decimal numbers, bytes and counts as whole numbers.
pub fn in_api_unit(kind: &ResourceKind, amount: u64) -> Value {
    match kind {
        ResourceKind::Cpu
        | ResourceKind::Gpu
        | ResourceKind::GpuModel(_)
        | ResourceKind::GpuPool(_) => json!(crate::words::cores(amount)),
        ResourceKind::Memory
        | ResourceKind::PauseMemory
        | ResourceKind::GpuMemory
        | ResourceKind::Tasks
        | ResourceKind::PlainTasks
        | ResourceKind::UserTasks
        | ResourceKind::Node
        | ResourceKind::MigProfile(_) => json!(amount),
    }
}
