//! Symbols about clocks and energy, and the performance counters (GPM).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use nvml_wrapper_sys::bindings::{
    nvmlGpmMetricsGet_t, nvmlGpmSample_t, nvmlGpmSupport_t, nvmlViolationTime_t,
};

use crate::call::{
    Code, Handle, INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, call, device_call, device_ix, give,
};

/// The samples that the caller holds.
static SAMPLES: Mutex<Samples> = Mutex::new(Samples { n_made: 0, held: BTreeMap::new() });

struct Samples {
    n_made: usize,
    /// The device of each and its place in the order of readings; `None` before it is read.
    held: BTreeMap<usize, Option<(usize, usize)>>,
}

fn samples<T>(with: impl FnOnce(&mut Samples) -> T) -> T {
    with(&mut SAMPLES.lock().unwrap_or_else(PoisonError::into_inner))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, out: Option<&mut u64>) -> Code {
    device_call("nvmlDeviceGetTotalEnergyConsumption", device, |_, it| give(out, it.energy_mj))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(device: Handle, kind: u32, mhz: Option<&mut u32>) -> Code {
    const SM: u32 = 1;
    device_call("nvmlDeviceGetClockInfo", device, |_, it| {
        give(mhz, it.sm_clock.filter(|_| kind == SM))
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetViolationStatus(
    device: Handle,
    policy: u32,
    time: Option<&mut nvmlViolationTime_t>,
) -> Code {
    device_call("nvmlDeviceGetViolationStatus", device, |_, it| {
        let time = time.ok_or(INVALID_ARGUMENT)?;
        time.violationTime = *it.capped_ns.get(&policy).ok_or(NOT_SUPPORTED)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmQueryDeviceSupport(
    device: Handle,
    support: Option<&mut nvmlGpmSupport_t>,
) -> Code {
    device_call("nvmlGpmQueryDeviceSupport", device, |_, it| {
        support.ok_or(INVALID_ARGUMENT)?.isSupportedDevice = u32::from(it.counters.is_some());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleAlloc(sample: Option<&mut nvmlGpmSample_t>) -> Code {
    let Some(sample) = sample else { return INVALID_ARGUMENT };
    samples(|all| {
        all.n_made += 1;
        all.held.insert(all.n_made, None);
        // A number, never an address.
        *sample = std::ptr::without_provenance_mut(all.n_made);
    });
    SUCCESS
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleFree(sample: nvmlGpmSample_t) -> Code {
    match samples(|all| all.held.remove(&sample.addr())) {
        Some(_) => SUCCESS,
        None => INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmSampleGet(device: Handle, sample: nvmlGpmSample_t) -> Code {
    device_call("nvmlGpmSampleGet", device, |_, it| {
        it.counters.as_ref().ok_or(NOT_SUPPORTED)?;
        let ix = device_ix(device).ok_or(INVALID_ARGUMENT)?;
        samples(|all| {
            all.n_made += 1;
            let place = all.n_made;
            *all.held.get_mut(&sample.addr()).ok_or(INVALID_ARGUMENT)? = Some((ix, place));
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlGpmMetricsGet(request: Option<&mut nvmlGpmMetricsGet_t>) -> Code {
    call("nvmlGpmMetricsGet", |state| {
        let request = request.ok_or(INVALID_ARGUMENT)?;
        let read = |sample: nvmlGpmSample_t| samples(|all| all.held.get(&sample.addr()).copied());
        let (first, second) = (read(request.sample1).flatten(), read(request.sample2).flatten());
        let (Some((ix, before)), Some((other, after))) = (first, second) else {
            return Err(INVALID_ARGUMENT);
        };
        if ix != other || before >= after {
            return Err(INVALID_ARGUMENT);
        }
        let counters = state.devices.get(ix).and_then(|it| it.counters.as_ref());
        let counters = counters.ok_or(NOT_SUPPORTED)?;
        for metric in request.metrics.iter_mut().take(request.numMetrics as usize) {
            let value = counters.get(&metric.metricId).copied();
            metric.nvmlReturn = if value.is_some() { SUCCESS } else { NOT_SUPPORTED };
            metric.value = value.unwrap_or(0.0);
        }
        Ok(())
    })
}
