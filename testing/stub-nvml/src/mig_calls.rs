//! Symbols about the division of devices into MIG instances. Changes are written to the state file.

use gpool_stub_state::{Device, Live, MigProfile, State, state_file};
use nvml_wrapper_sys::bindings::{
    nvmlComputeInstanceProfileInfo_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
    nvmlGpuInstanceProfileInfo_v2_t,
};

use crate::call::{
    Code, Handle, IN_USE, INSUFFICIENT_RESOURCES, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND,
    NOT_SUPPORTED, UNKNOWN, device_call, device_ix, fill, give, instance,
};

/// A GPU instance's number in a handle, above the device's.
const GPU_INSTANCE: u32 = 32;
/// Marks the handle of a compute instance.
const COMPUTE: usize = 1 << 62;

fn handle_of(device: Handle, gpu_instance: u32) -> Handle {
    (device & 0xffff) | (gpu_instance as usize + 1) << GPU_INSTANCE
}

/// The number of the GPU instance in a handle.
fn gpu_instance(handle: Handle) -> Result<u32, Code> {
    let number = ((handle & !COMPUTE) >> GPU_INSTANCE).checked_sub(1);
    number.and_then(|it| u32::try_from(it).ok()).ok_or(INVALID_ARGUMENT)
}

/// Changes a device in the state file.
fn change<T>(handle: Handle, work: impl FnOnce(&mut Device) -> Result<T, Code>) -> Result<T, Code> {
    let file = state_file().map_err(|_| UNKNOWN)?;
    let live = Live::beside(&file);
    let _locked = live.lock().map_err(|_| UNKNOWN)?;
    let mut state = State::read(&file).map_err(|_| UNKNOWN)?;
    let ix = device_ix(handle).ok_or(INVALID_ARGUMENT)?;
    let done = work(state.devices.get_mut(ix).ok_or(INVALID_ARGUMENT)?)?;
    state.write(&file).map_err(|_| UNKNOWN)?;
    Ok(done)
}

fn profile(device: &Device, id: u32) -> Result<&MigProfile, Code> {
    if device.mig != Some(true) {
        return Err(NOT_SUPPORTED);
    }
    device.mig_profile(id).ok_or(INVALID_ARGUMENT)
}

fn number(of: usize) -> Result<u32, Code> {
    u32::try_from(of).map_err(|_| UNKNOWN)
}

/// Writes an array of the caller.
///
/// # Safety
/// `room` is null or has room for `count` values.
unsafe fn give_all<T: Copy>(
    values: &[T],
    count: Option<&mut u32>,
    room: *mut T,
) -> Result<(), Code> {
    let count = count.ok_or(INVALID_ARGUMENT)?;
    let n_places = if room.is_null() { 0 } else { *count as usize };
    *count = number(values.len())?;
    if n_places < values.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    for (ix, value) in values.iter().enumerate() {
        // SAFETY: there is room for `n_places`, and `ix` is below it.
        unsafe { room.add(ix).write(*value) };
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceProfileInfoV(
    device: Handle,
    kind: u32,
    info: Option<&mut nvmlGpuInstanceProfileInfo_v2_t>,
) -> Code {
    device_call("nvmlDeviceGetGpuInstanceProfileInfoV", device, |_, it| {
        let info = info.ok_or(INVALID_ARGUMENT)?;
        let expected = number(size_of::<nvmlGpuInstanceProfileInfo_v2_t>())? | 2 << 24;
        if info.version != expected {
            return Err(INVALID_ARGUMENT);
        }
        let found = it.mig_profiles.iter().find(|profile| profile.kind == kind);
        let found = found.ok_or(NOT_SUPPORTED)?;
        info.id = found.id;
        info.sliceCount = found.slices;
        info.instanceCount = found.most;
        info.multiprocessorCount = found.multiprocessors;
        info.memorySizeMB = found.memory_mb;
        fill(&mut info.name, &found.name);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    device: Handle,
    id: u32,
    room: *mut nvmlGpuInstancePlacement_t,
    count: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, |_, it| {
        let profile = profile(it, id)?;
        let place = |start: &u32| nvmlGpuInstancePlacement_t { start: *start, size: profile.size };
        let places: Vec<_> = profile.starts.iter().map(place).collect();
        // SAFETY: the caller guarantees the array and its length.
        unsafe { give_all(&places, count, room) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceRemainingCapacity(
    device: Handle,
    id: u32,
    count: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetGpuInstanceRemainingCapacity", device, |_, it| {
        give(count, Some(number(it.mig_places(profile(it, id)?).len())?))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetGpuInstances(
    device: Handle,
    id: u32,
    room: *mut Handle,
    count: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetGpuInstances", device, |_, it| {
        profile(it, id)?;
        let own = it.gpu_instances.iter().filter(|part| part.profile == id);
        let handles: Vec<Handle> = own.map(|part| handle_of(device, part.id)).collect();
        // SAFETY: the caller guarantees the array and its length.
        unsafe { give_all(&handles, count, room) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceById(
    device: Handle,
    id: u32,
    part: Option<&mut Handle>,
) -> Code {
    device_call("nvmlDeviceGetGpuInstanceById", device, |_, it| {
        it.gpu_instances.iter().find(|part| part.id == id).ok_or(NOT_FOUND)?;
        give(part, Some(handle_of(device, id)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceId(device: Handle, id: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetGpuInstanceId", device, |_, it| {
        let part = instance(it, device).ok_or(NOT_SUPPORTED)?;
        give(id, part.gpu_instance)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeInstanceId(device: Handle, id: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetComputeInstanceId", device, |_, it| {
        let part = instance(it, device).ok_or(NOT_SUPPORTED)?;
        // A GPU instance has one compute instance.
        give(id, part.gpu_instance.map(|_| 0))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetInfo(
    part: Handle,
    info: Option<&mut nvmlGpuInstanceInfo_t>,
) -> Code {
    device_call("nvmlGpuInstanceGetInfo", part, |_, it| {
        let (info, id) = (info.ok_or(INVALID_ARGUMENT)?, gpu_instance(part)?);
        let found = it.gpu_instances.iter().find(|part| part.id == id).ok_or(NOT_FOUND)?;
        let profile = profile(it, found.profile)?;
        (info.id, info.profileId) = (id, found.profile);
        info.placement = nvmlGpuInstancePlacement_t { start: found.start, size: profile.size };
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceCreateGpuInstance(
    device: Handle,
    id: u32,
    part: Option<&mut Handle>,
) -> Code {
    device_call("nvmlDeviceCreateGpuInstance", device, |_, it| {
        profile(it, id)?;
        let made = change(device, |it| it.add_gpu_instance(id).ok_or(INSUFFICIENT_RESOURCES))?;
        give(part, Some(handle_of(device, made)))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceDestroy(part: Handle) -> Code {
    device_call("nvmlGpuInstanceDestroy", part, |_, it| {
        let id = gpu_instance(part)?;
        if it.instance_of(id).is_some() {
            return Err(IN_USE);
        }
        change(part, |it| {
            it.gpu_instances.retain(|part| part.id != id);
            Ok(())
        })
    })
}

/// The kind of compute instance that has all of a GPU instance has the same number as the kind of
/// GPU instance without a suffix.
fn kind_of(slices: u32) -> Option<u32> {
    [1, 2, 3, 4, 7].iter().zip(0..).find_map(|(of, kind)| (*of == slices).then_some(kind))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    part: Handle,
    kind: u32,
    engines: u32,
    info: Option<&mut nvmlComputeInstanceProfileInfo_t>,
) -> Code {
    device_call("nvmlGpuInstanceGetComputeInstanceProfileInfo", part, |_, it| {
        let (info, id) = (info.ok_or(INVALID_ARGUMENT)?, gpu_instance(part)?);
        let found = it.gpu_instances.iter().find(|part| part.id == id).ok_or(NOT_FOUND)?;
        let whole = profile(it, found.profile)?;
        let sizes = [1, 2, 3, 4, 7];
        let slices = *sizes.get(kind as usize).ok_or(INVALID_ARGUMENT)?;
        if slices > whole.slices || engines != 0 {
            return Err(NOT_SUPPORTED);
        }
        (info.id, info.sliceCount) = (kind, slices);
        info.instanceCount = whole.slices / slices;
        info.multiprocessorCount = whole.multiprocessors * slices / whole.slices;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlGpuInstanceGetComputeInstances(
    part: Handle,
    kind: u32,
    room: *mut Handle,
    count: Option<&mut u32>,
) -> Code {
    device_call("nvmlGpuInstanceGetComputeInstances", part, |_, it| {
        let own = it.instance_of(gpu_instance(part)?);
        let own = own.filter(|it| kind_of(it.slices) == Some(kind));
        let handles: Vec<Handle> = own.iter().map(|_| part | COMPUTE).collect();
        // SAFETY: the caller guarantees the array and its length.
        unsafe { give_all(&handles, count, room) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpuInstanceCreateComputeInstance(
    part: Handle,
    kind: u32,
    compute: Option<&mut Handle>,
) -> Code {
    device_call("nvmlGpuInstanceCreateComputeInstance", part, |_, it| {
        let id = gpu_instance(part)?;
        let found = it.gpu_instances.iter().find(|part| part.id == id).ok_or(NOT_FOUND)?;
        if kind_of(profile(it, found.profile)?.slices) != Some(kind) {
            return Err(NOT_SUPPORTED);
        }
        change(part, |it| it.add_compute_instance(id).ok_or(UNKNOWN))?;
        give(compute, Some(part | COMPUTE))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlComputeInstanceDestroy(compute: Handle) -> Code {
    device_call("nvmlComputeInstanceDestroy", compute, |_, it| {
        let id = gpu_instance(compute)?;
        let own = it.instance_of(id).ok_or(NOT_FOUND)?;
        if !own.processes.is_empty() {
            return Err(IN_USE);
        }
        change(compute, |it| {
            it.remove_compute_instance(id);
            Ok(())
        })
    })
}
