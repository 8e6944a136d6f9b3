//! GPU metrics under the names, labels and units of NVIDIA's dcgm-exporter, so that its dashboards
//! work with gpool. The values are NVML's, as everywhere in gpool.
//!
//! Source: dcgm-exporter 4.x, `etc/default-counters.csv` and its label names.

use std::collections::BTreeMap;

use gpool_wire::{Gpu, Node};

use super::{Labels, MetricsPage, flag, float};

const MIB: f64 = 1_048_576.0;

/// The profile of a MIG instance, such as `1g.10gb`.
pub(super) fn mig_profile(gpu: &Gpu) -> Option<String> {
    let part = gpu.part_of.as_ref()?;
    Some(format!("{}g.{}gb", part.compute_slices, gpu.memory_total.div_ceil(1 << 30)))
}

/// Labels of a device as dcgm-exporter has them.
fn labels(gpu: &Gpu, drivers: &BTreeMap<&str, &str>) -> Labels {
    let parent = gpu.part_of.as_ref().map_or(gpu.index, |part| part.index);
    let device = gpu.minor.map_or_else(String::new, |minor| format!("nvidia{minor}"));
    let mut labels = vec![
        ("gpu", parent.to_string()),
        ("UUID", gpu.uuid.clone()),
        ("pci_bus_id", gpu.pci_bus.clone()),
        ("device", device),
        ("modelName", gpu.model.clone()),
        ("hostname", gpu.node.clone()),
    ];
    if let Some(driver) = drivers.get(gpu.node.as_str()) {
        labels.push(("DCGM_FI_DRIVER_VERSION", (*driver).to_owned()));
    }
    if let Some(profile) = mig_profile(gpu) {
        labels.push(("GPU_I_PROFILE", profile));
        labels.push(("GPU_I_ID", gpu.index.to_string()));
    }
    if let Some(job) = &gpu.job {
        labels.push(("hpc_job", job.clone()));
    }
    labels
}

impl MetricsPage {
    pub(super) fn dcgm(&mut self, gpus: &[Gpu], nodes: &[Node]) {
        let driver = |node: &'_ Node| node.devices_from.strip_prefix("nvml ").map(str::to_owned);
        let drivers: Vec<_> =
            nodes.iter().filter_map(|node| Some((node.name.clone(), driver(node)?))).collect();
        let drivers = drivers.iter().map(|(node, driver)| (node.as_str(), driver.as_str()));
        let drivers: BTreeMap<&str, &str> = drivers.collect();
        let mut each = |name: &str, help: &str, value: &dyn Fn(&Gpu) -> Option<f64>| {
            let rows = gpus.iter().filter_map(|gpu| Some((labels(gpu, &drivers), value(gpu)?)));
            self.numbers(name, help, rows.collect::<Vec<_>>());
        };
        let mib = |bytes: u64| float(bytes) / MIB;
        each("DCGM_FI_DEV_SM_CLOCK", "SM clock frequency in MHz", &|gpu| {
            gpu.detail.sm_clock_mhz.map(f64::from)
        });
        each("DCGM_FI_DEV_GPU_TEMP", "GPU temperature in C", &|gpu| {
            gpu.temperature_c.map(f64::from)
        });
        each("DCGM_FI_DEV_MEMORY_TEMP", "Memory temperature in C", &|gpu| {
            gpu.detail.memory_temperature_c.map(f64::from)
        });
        each("DCGM_FI_DEV_POWER_USAGE", "Power draw in W", &|gpu| gpu.power_w);
        each("DCGM_FI_DEV_GPU_UTIL", "GPU utilization in percent", &|gpu| {
            gpu.utilization.map(|ratio| ratio * 100.0)
        });
        each("DCGM_FI_DEV_FB_USED", "Framebuffer memory used in MiB", &|gpu| {
            gpu.memory_used.map(mib)
        });
        each("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free in MiB", &|gpu| {
            gpu.memory_free.map(mib)
        });
        each("DCGM_FI_PROF_SM_ACTIVE", "Fraction of active multiprocessors", &|gpu| {
            gpu.detail.sm_active
        });
        each("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "Fraction of active tensor cores", &|gpu| {
            gpu.detail.tensor_active
        });
        each("DCGM_FI_PROF_DRAM_ACTIVE", "Fraction of active memory cycles", &|gpu| {
            gpu.detail.dram_active
        });
        each("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "Rows remapped, corrected errors", &|gpu| {
            gpu.detail.errors.rows_corrected.map(float)
        });
        each("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "Rows remapped, other errors", &|gpu| {
            gpu.detail.errors.rows_uncorrected.map(float)
        });
        each("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed", &|gpu| {
            gpu.detail.errors.remap_failed.map(flag)
        });
        // A counter there. Its name lacks the suffix that OpenMetrics wants of counters.
        each("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy since boot in mJ", &|gpu| {
            gpu.detail.energy_j.map(|joules| joules * 1000.0)
        });
    }
}
