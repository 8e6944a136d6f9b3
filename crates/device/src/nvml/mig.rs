//! The division of a device into MIG instances, through calls that the wrapper of the library
//! lacks. Each instance has one compute instance that has all of it.

use std::ffi::OsStr;
use std::path::PathBuf;

use gpool_model::device::InstanceNodes;
use gpool_model::id::DeviceUuid;
use gpool_model::mig::{Profile, split_model};
use gpool_model::mig_layout::{MigError, MigInstance, MigPlacement, MigSize};
use gpool_model::unit::Bytes;
use gpool_sys::mig::{self, Failed, MigCalls, MigErrorKind};

use super::card::Card;
use super::supported;

/// Begins the driver's names of profiles.
const MIG: &str = "MIG ";

/// The variable with another folder than `/proc`, for tests.
const PROC_VARIABLE: &str = "GPOOL_PROC_PATH";

/// The device nodes of an instance of the device with this minor number; `None` if the driver does
/// not tell them.
pub(super) fn nodes(
    library: &OsStr,
    parent: Option<u32>,
    uuid: &DeviceUuid,
) -> Option<InstanceNodes> {
    let calls = MigCalls::of(library)?;
    let gpu_instance = calls.instance_of(uuid.as_str()).ok()?;
    let compute_instance = calls.compute_instance_of(uuid.as_str()).ok()?;
    let folder = std::env::var_os(PROC_VARIABLE).map_or_else(|| "/proc".into(), PathBuf::from);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let (devices, minors) = (read("devices")?, read("driver/nvidia-caps/mig-minors")?);
    nodes_in(&devices, &minors, [parent?, gpu_instance, compute_instance])
}

/// Finds the nodes of an instance in the kernel's list of devices and the driver's list of minor
/// numbers: by the minor number of the device and the numbers of GPU instance and compute instance.
#[must_use]
pub fn nodes_in(devices: &str, minors: &str, place: [u32; 3]) -> Option<InstanceNodes> {
    let number = |text: &str, is_it: &dyn Fn(&str, &str) -> Option<u32>| {
        text.lines().find_map(|line| {
            let (first, second) = line.trim().split_once(' ')?;
            is_it(first, second.trim())
        })
    };
    let major = number(devices, &|major, name| {
        (name == "nvidia-caps").then(|| major.parse().ok()).flatten()
    });
    let minor =
        |path: &str| number(minors, &|name, minor| (name == path).then(|| minor.parse().ok())?);
    let [device, gpu, compute] = place;
    Some(InstanceNodes {
        major: major?,
        gpu_instance: minor(&format!("gpu{device}/gi{gpu}/access"))?,
        compute_instance: minor(&format!("gpu{device}/gi{gpu}/ci{compute}/access"))?,
    })
}

/// The sizes of instances that a device can have, and its instances. Their indexes are 0.
pub(super) fn sizes(library: &OsStr, card: &Card) -> Result<Vec<MigSize>, MigError> {
    let calls = calls(library)?;
    let parts = parts(&calls, card)?;
    let profiles = calls.profiles(&uuid_of(card)?).map_err(|failed| of_driver(&failed))?;
    Ok(profiles.into_iter().map(|profile| size(&profile, &parts)).collect())
}

fn size(profile: &mig::Profile, parts: &[(DeviceUuid, u32)]) -> MigSize {
    let placed = |(start, size): (u32, u32)| MigPlacement { start, size };
    let device_of = |id| parts.iter().find(|(_, of)| *of == id).map(|(uuid, _)| uuid.clone());
    let instance = |part: &mig::GpuInstance| MigInstance {
        placement: placed(part.placement),
        device: device_of(part.id).map(|uuid| (uuid, 0)),
    };
    let mut instances: Vec<MigInstance> = profile.instances.iter().map(instance).collect();
    instances.sort_unstable_by_key(|it| it.placement);
    MigSize {
        profile: name(profile),
        memory: Bytes::new(profile.memory_mb.saturating_mul(1 << 20)),
        compute_slices: profile.slices,
        multiprocessors: profile.multiprocessors,
        n_max: profile.n_max,
        n_free: profile.n_free,
        placements: profile.placements.iter().copied().map(placed).collect(),
        instances,
    }
}

/// The name of a profile; made from its size if the driver has none.
fn name(profile: &mig::Profile) -> String {
    let said = profile.name.strip_prefix(MIG).unwrap_or(&profile.name);
    match said.is_empty() {
        false => said.to_owned(),
        true => {
            let memory = Bytes::new(profile.memory_mb.saturating_mul(1 << 20));
            Profile::of(profile.slices, memory).to_string()
        }
    }
}

/// The MIG devices of a device, each with the number of its GPU instance.
fn parts(calls: &MigCalls, card: &Card) -> Result<Vec<(DeviceUuid, u32)>, MigError> {
    let failed = |error: crate::SourceError| MigError::Driver { why: error.to_string() };
    let n_places = supported(card.device.mig_device_count()).map_err(failed)?.unwrap_or(0);
    let mut parts = Vec::new();
    for place in 0..n_places {
        let part = supported(card.device.mig_device_by_index(place)).map_err(failed)?;
        let uuid = part.map(|part| supported(part.uuid())).transpose().map_err(failed)?.flatten();
        let Some(uuid) = uuid else { continue };
        // It may have been destroyed since.
        if let Ok(id) = calls.instance_of(&uuid) {
            parts.push((DeviceUuid::new(uuid), id));
        }
    }
    Ok(parts)
}

/// Creates an instance where the driver places it.
pub(super) fn create(library: &OsStr, card: &Card, profile: &str) -> Result<DeviceUuid, MigError> {
    let (calls, device) = (calls(library)?, uuid_of(card)?);
    let profiles = calls.profiles(&device).map_err(|failed| of_driver(&failed))?;
    // `h100-3g.40gb` and the driver's `… MIG 3g.40gb` are names of models, not of profiles.
    let wanted = split_model(profile).1.unwrap_or(profile);
    let names =
        |of: &dyn Fn(&&mig::Profile) -> bool| profiles.iter().filter(of).map(name).collect();
    let found = profiles.iter().find(|it| name(it).eq_ignore_ascii_case(wanted));
    let found = found.ok_or_else(|| MigError::NoSuchProfile {
        profile: profile.chars().take(80).collect(),
        known: names(&|_| true),
    })?;
    let no_room = || MigError::NoRoom { profile: name(found), free: names(&|it| it.n_free > 0) };
    if found.n_free == 0 {
        return Err(no_room());
    }
    let id = calls.create(&device, found.id).map_err(|failed| match failed.kind {
        MigErrorKind::NoRoom => no_room(),
        _ => of_driver(&failed),
    })?;
    let made = parts(&calls, card)?.into_iter().find(|(_, of)| *of == id);
    made.map(|(uuid, _)| uuid).ok_or_else(|| MigError::Driver {
        why: format!("the driver does not list the new GPU instance {id}; see nvidia-smi mig -lgi"),
    })
}

pub(super) fn destroy(
    library: &OsStr,
    parent: &Card,
    instance: &DeviceUuid,
) -> Result<(), MigError> {
    let calls = calls(library)?;
    let id = calls.instance_of(instance.as_str()).map_err(|failed| of_driver(&failed))?;
    calls.destroy(&uuid_of(parent)?, id).map_err(|failed| match failed.kind {
        MigErrorKind::InUse => MigError::Driver { why: format!("{failed}: a process uses it") },
        _ => of_driver(&failed),
    })
}

fn calls(library: &OsStr) -> Result<MigCalls, MigError> {
    let why = "the driver has no calls for MIG instances".to_owned();
    MigCalls::of(library).ok_or(MigError::Driver { why })
}

fn uuid_of(card: &Card) -> Result<String, MigError> {
    card.device.uuid().map_err(|error| MigError::Driver { why: error.to_string() })
}

fn of_driver(failed: &Failed) -> MigError {
    match failed.kind {
        MigErrorKind::NotFound => MigError::NoSuchDevice,
        MigErrorKind::NoRoom | MigErrorKind::InUse | MigErrorKind::Other => {
            MigError::Driver { why: failed.to_string() }
        }
    }
}
