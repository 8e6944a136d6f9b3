//! MIG profiles and instances in the API.

use gpool_model::device::DeviceState;
use gpool_model::mig_layout::{MigDevice, MigSize};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::gpu::Gpu;

/// A request to list MIG instances, or to change them first. At most one of `create` and `destroy`
/// can be set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MigRequest {
    /// Name of the node to list. Without it, all nodes are listed, or the node of the change.
    pub node: Option<String>,
    /// The instance to create.
    pub create: Option<CreateInstance>,
    /// The instance to destroy: `1000`, `lab1:1000`, or its UUID.
    pub destroy: Option<String>,
}

/// An instance to create.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateInstance {
    /// The GPU: `0`, `lab1:0`, or its UUID. MIG mode must be on.
    pub gpu: String,
    /// Name of the profile: `1g.10gb`.
    pub profile: String,
}

/// MIG profiles and instances.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct MigAnswer {
    /// The created instance. `null` if none was created.
    pub created: Option<MigInstance>,
    /// The profiles of each GPU that has MIG mode on, with their instances. After a change, only
    /// those of the node.
    pub profiles: Vec<MigProfile>,
}

/// A profile of one GPU, and the instances of that profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MigProfile {
    /// Name of the node.
    pub node: String,
    /// Index of the GPU.
    pub gpu: u32,
    /// UUID of the GPU.
    pub gpu_uuid: String,
    /// Name of the profile: `1g.10gb`.
    pub profile: String,
    /// Memory of an instance in bytes.
    pub memory: u64,
    /// Compute slices of an instance, of seven per GPU.
    pub compute_slices: u32,
    /// Streaming multiprocessors of an instance.
    pub multiprocessors: u32,
    /// Number of instances that an empty GPU can have.
    pub n_max: u32,
    /// Number of further instances that the GPU can have now.
    pub n_free: u32,
    /// Number of memory slices of an instance.
    pub memory_slices: u32,
    /// First memory slice of each place where an instance can be.
    pub placements: Vec<u32>,
    /// The instances, by place.
    pub instances: Vec<MigInstance>,
}

/// A MIG instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MigInstance {
    /// Index of the instance among the devices of the node. `null` if no program can use it, since
    /// it has no compute instance.
    pub index: Option<u32>,
    /// UUID of the instance. `null` if no program can use it.
    pub uuid: Option<String>,
    /// First memory slice.
    pub start: u32,
    /// State of the instance.
    #[schema(schema_with = crate::schema::device_state)]
    pub state: DeviceState,
    /// ID of the job that uses it.
    pub job: Option<String>,
    /// User of that job.
    pub user: Option<String>,
}

/// A planned change of MIG instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MigStep {
    /// Name of the node.
    pub node: String,
    /// Pool of the node.
    pub pool: String,
    /// Index of the GPU.
    pub gpu: u32,
    /// UUID of the GPU.
    pub gpu_uuid: String,
    /// `create` or `destroy`.
    pub change: String,
    /// Name of the profile: `1g.10gb`.
    pub profile: String,
    /// Index of the instance to destroy. `null` for an instance to create.
    pub instance: Option<u32>,
    /// ID of the waiting job that needs the change.
    pub job: String,
}

impl MigProfile {
    /// Returns the profiles of a device. `gpus` are the devices as the server knows them; a new
    /// instance that it does not know yet is free.
    #[must_use]
    pub fn of(node: &str, device: &MigDevice, gpus: &[Gpu]) -> Vec<Self> {
        let profile = |size: &MigSize| Self {
            node: node.to_owned(),
            gpu: device.index,
            gpu_uuid: device.uuid.to_string(),
            profile: size.profile.clone(),
            memory: size.memory.get(),
            compute_slices: size.compute_slices,
            multiprocessors: size.multiprocessors,
            n_max: size.n_max,
            n_free: size.n_free,
            memory_slices: size.placements.first().map_or(0, |place| place.size),
            placements: size.placements.iter().map(|place| place.start).collect(),
            instances: size.instances.iter().map(|it| MigInstance::of(it, gpus)).collect(),
        };
        device.sizes.iter().map(profile).collect()
    }
}

impl MigInstance {
    fn of(instance: &gpool_model::mig_layout::MigInstance, gpus: &[Gpu]) -> Self {
        let uuid = instance.device.as_ref().map(|(uuid, _)| uuid.to_string());
        let known = gpus.iter().find(|gpu| uuid.as_ref() == Some(&gpu.uuid));
        let usual = if uuid.is_some() { DeviceState::Free } else { DeviceState::Unknown };
        Self {
            index: instance.device.as_ref().map(|(_, index)| *index),
            start: instance.placement.start,
            state: known.map_or(usual, |gpu| gpu.state),
            job: known.and_then(|gpu| gpu.job.clone()),
            user: known.and_then(|gpu| gpu.user.clone()),
            uuid,
        }
    }
}
