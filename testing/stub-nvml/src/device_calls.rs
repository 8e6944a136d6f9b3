//! Symbols about one device: its properties, values, processes and instances.

use std::ffi::{c_char, c_int};

use gpool_stub_state::Process;
use nvml_wrapper_sys::bindings::{
    field_id::{
        NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_FAILURE,
        NVML_FI_DEV_REMAPPED_PENDING, NVML_FI_DEV_REMAPPED_UNC, NVML_FI_DEV_RETIRED_PENDING,
    },
    nvmlDeviceAttributes_t, nvmlFieldValue_t, nvmlMemory_v2_t, nvmlPciInfo_t, nvmlProcessInfo_t,
    nvmlProcessUtilizationSample_t, nvmlUtilization_t,
};

use crate::call::{
    Code, Handle, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, SUCCESS,
    cuda_processes, device_call, device_ix, fill, give, give_text, handle, instance, own_limit,
};

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, buffer: *mut c_char, length: u32) -> Code {
    device_call("nvmlDeviceGetUUID", device, |_, it| {
        let uuid = instance(it, device).map_or(&it.uuid, |part| &part.uuid);
        // SAFETY: the caller guarantees the buffer and its length.
        unsafe { give_text(buffer, length, uuid) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetName(device: Handle, buffer: *mut c_char, length: u32) -> Code {
    device_call("nvmlDeviceGetName", device, |_, it| {
        let own = instance(it, device).and_then(|part| part.name.as_ref());
        // SAFETY: the caller guarantees the buffer and its length.
        unsafe { give_text(buffer, length, own.unwrap_or(&it.name)) }
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(device: Handle, index: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetIndex", device, |_, _| {
        give(index, device_ix(device).and_then(|ix| u32::try_from(ix).ok()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMinorNumber(device: Handle, minor: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetMinorNumber", device, |_, it| give(minor, it.minor))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetNumaNodeId(device: Handle, node: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetNumaNodeId", device, |_, it| give(node, it.numa))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: Option<&mut nvmlPciInfo_t>) -> Code {
    device_call("nvmlDeviceGetPciInfo_v3", device, |_, it| {
        fill(&mut pci.ok_or(INVALID_ARGUMENT)?.busId, &it.bus);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: Handle,
    info: Option<&mut nvmlMemory_v2_t>,
) -> Code {
    device_call("nvmlDeviceGetMemoryInfo_v2", device, |_, it| {
        let info = info.ok_or(INVALID_ARGUMENT)?;
        (info.total, info.used) = match instance(it, device) {
            Some(part) => (part.memory_mb << 20, part.used),
            None => {
                let processes = cuda_processes(device)?;
                let live: u64 = processes.iter().filter_map(|process| process.memory).sum();
                (it.memory.ok_or(NOT_SUPPORTED)?, it.used + live)
            }
        };
        info.reserved = 0;
        if let Some((hard, used)) = own_limit(device)? {
            (info.total, info.used) = (info.total.min(hard), used);
        }
        info.free = info.total.saturating_sub(info.used);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(
    device: Handle,
    rates: Option<&mut nvmlUtilization_t>,
) -> Code {
    device_call("nvmlDeviceGetUtilizationRates", device, |_, it| {
        let utilization = it.utilization.filter(|_| instance(it, device).is_none());
        let memory = it.traffic;
        give(rates, utilization.map(|gpu| nvmlUtilization_t { gpu, memory }))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(
    device: Handle,
    _sensor: u32,
    degrees: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetTemperature", device, |_, it| give(degrees, it.temperature))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, milliwatts: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetPowerUsage", device, |_, it| give(milliwatts, it.power_mw))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Handle,
    kind: u32,
    _counter: u32,
    count: Option<&mut u64>,
) -> Code {
    const UNCORRECTED: u32 = 1;
    device_call("nvmlDeviceGetTotalEccErrors", device, |_, it| {
        give(count, if kind == UNCORRECTED { it.ecc_uncorrected } else { it.ecc_corrected })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Handle,
    count: c_int,
    values: *mut nvmlFieldValue_t,
) -> Code {
    const UNSIGNED_INT: u32 = 1;
    device_call("nvmlDeviceGetFieldValues", device, |_, it| {
        let count = usize::try_from(count).map_err(|_| INVALID_ARGUMENT)?;
        if values.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller passes `count` initialised values.
        for value in unsafe { std::slice::from_raw_parts_mut(values, count) } {
            value.nvmlReturn = NOT_SUPPORTED;
            let number = match value.fieldId {
                NVML_FI_DEV_REMAPPED_COR => it.rows_remapped.map(|rows| rows.0),
                NVML_FI_DEV_REMAPPED_UNC => it.rows_remapped.map(|rows| rows.1),
                NVML_FI_DEV_REMAPPED_PENDING => it.remap_pending.map(u32::from),
                NVML_FI_DEV_REMAPPED_FAILURE => it.remap_failed.map(u32::from),
                NVML_FI_DEV_RETIRED_PENDING => it.retire_pending.map(u32::from),
                NVML_FI_DEV_MEMORY_TEMP => it.memory_temperature,
                _ => None,
            };
            if let Some(number) = number {
                value.nvmlReturn = SUCCESS;
                value.valueType = UNSIGNED_INT;
                value.value.uiVal = number;
            }
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: Option<&mut u32>,
    room: *mut nvmlProcessInfo_t,
) -> Code {
    device_call("nvmlDeviceGetComputeRunningProcesses_v3", device, |_, it| {
        let of_instances = || it.instances.iter().flat_map(|part| &part.processes);
        let processes = match instance(it, device) {
            Some(part) => Some(part.processes.clone()),
            None => {
                let all = it.processes.as_ref().map(|own| own.iter().chain(of_instances()));
                let mut all = all.map(|all| all.cloned().collect::<Vec<Process>>());
                if let Some(all) = &mut all {
                    all.extend(cuda_processes(device)?);
                }
                all
            }
        };
        // SAFETY: the caller guarantees the array and its length.
        unsafe { give_processes(processes.as_deref(), count, room) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: Handle,
    count: Option<&mut u32>,
    room: *mut nvmlProcessInfo_t,
) -> Code {
    // SAFETY: the caller guarantees the array and its length.
    device_call("nvmlDeviceGetMPSComputeRunningProcesses_v3", device, |_, it| unsafe {
        give_processes(it.mps_processes.as_deref(), count, room)
    })
}

/// # Safety
/// `room` is null or has room for `count` processes.
unsafe fn give_processes(
    processes: Option<&[Process]>,
    count: Option<&mut u32>,
    room: *mut nvmlProcessInfo_t,
) -> Result<(), Code> {
    let processes = processes.ok_or(NOT_SUPPORTED)?;
    let count = count.ok_or(INVALID_ARGUMENT)?;
    let n_places = if room.is_null() { 0 } else { *count as usize };
    *count = u32::try_from(processes.len()).map_err(|_| INVALID_ARGUMENT)?;
    if n_places < processes.len() {
        return Err(INSUFFICIENT_SIZE);
    }
    for (ix, process) in processes.iter().enumerate() {
        let info = nvmlProcessInfo_t {
            pid: process.pid,
            usedGpuMemory: process.memory.unwrap_or(u64::MAX),
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        };
        // SAFETY: there is room for `n_places`, and `ix` is below it.
        unsafe { room.add(ix).write(info) };
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(
    device: Handle,
    current: Option<&mut u32>,
    pending: Option<&mut u32>,
) -> Code {
    device_call("nvmlDeviceGetMigMode", device, |_, it| {
        let mig = it.mig.filter(|_| instance(it, device).is_none()).map(u32::from);
        give(current, mig)?;
        give(pending, mig)
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Option<&mut u32>) -> Code {
    device_call("nvmlDeviceGetMaxMigDeviceCount", device, |_, it| give(count, it.mig.map(|_| 7)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Handle,
    index: u32,
    part: Option<&mut Handle>,
) -> Code {
    device_call("nvmlDeviceGetMigDeviceHandleByIndex", device, |_, it| {
        let ix = index as usize;
        it.instances.get(ix).filter(|it| !it.uuid.is_empty()).ok_or(NOT_FOUND)?;
        give(part, device_ix(device).map(|parent| handle(parent, Some(ix))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetAttributes_v2(
    device: Handle,
    attributes: Option<&mut nvmlDeviceAttributes_t>,
) -> Code {
    device_call("nvmlDeviceGetAttributes_v2", device, |_, it| {
        let part = instance(it, device).ok_or(NOT_SUPPORTED)?;
        let attributes = attributes.ok_or(INVALID_ARGUMENT)?;
        attributes.memorySizeMB = part.memory_mb;
        attributes.gpuInstanceSliceCount = part.slices;
        attributes.computeInstanceSliceCount = part.slices;
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Handle,
    room: *mut nvmlProcessUtilizationSample_t,
    count: Option<&mut u32>,
    last_seen: u64,
) -> Code {
    device_call("nvmlDeviceGetProcessUtilization", device, |_, it| {
        let busy = it.process_utilization.as_ref().ok_or(NOT_SUPPORTED)?;
        let count = count.ok_or(INVALID_ARGUMENT)?;
        let n_places = if room.is_null() { 0 } else { *count as usize };
        *count = u32::try_from(busy.len()).map_err(|_| INVALID_ARGUMENT)?;
        if busy.is_empty() {
            return Err(NOT_FOUND);
        }
        if n_places < busy.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        for (ix, (&pid, &percent)) in busy.iter().enumerate() {
            let sample = nvmlProcessUtilizationSample_t {
                pid,
                timeStamp: last_seen + 1,
                smUtil: percent,
                memUtil: 0,
                encUtil: 0,
                decUtil: 0,
            };
            // SAFETY: there is room for `n_places`, and `ix` is below it.
            unsafe { room.add(ix).write(sample) };
        }
        Ok(())
    })
}
