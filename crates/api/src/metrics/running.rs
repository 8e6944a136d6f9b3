//! Metrics of running jobs. Each one ends with its job, so their number follows the GPUs.

use std::collections::BTreeMap;

use gpool_wire::Node;

use super::{MetricsPage, float};
use gpool_insight::usage::minutes::{DeviceReading, HeldPart};

/// The GPUs of a job that were measured.
#[derive(Default)]
struct Measured {
    utilization: f64,
    n_utilized: f64,
    memory: Option<u64>,
}

impl MetricsPage {
    pub(super) fn running(&mut self, seen: &[DeviceReading], nodes: &[Node]) {
        let pools = nodes.iter().map(|node| (node.name.as_str(), node.pool.as_str()));
        let pools: BTreeMap<&str, &str> = pools.collect();
        let mut jobs = BTreeMap::<&str, (BTreeMap<&str, &HeldPart>, Measured)>::new();
        for device in seen {
            for held in &device.held {
                let Some(job) = &held.job else { continue };
                let (on, measured) = jobs.entry(job).or_default();
                on.insert(&device.node, held);
                if let Some(percent) = held.busy_percent {
                    measured.utilization += f64::from(percent) / 100.0;
                    measured.n_utilized += 1.0;
                }
                let memory = held.memory.map(|more| measured.memory.unwrap_or(0) + more);
                measured.memory = memory.or(measured.memory);
            }
        }
        let info = jobs.iter().flat_map(|(job, (on, _))| {
            let row = |(node, held): (&&str, &&HeldPart)| {
                let pool = pools.get(node).copied().unwrap_or_default();
                let labels = [
                    ("job_id", *job),
                    ("user", &held.user),
                    ("project", &held.project),
                    ("pool", pool),
                    ("node", node),
                ];
                (labels.map(|(key, value)| (key, value.to_owned())).to_vec(), 1.0)
            };
            on.iter().map(row).collect::<Vec<_>>()
        });
        let help = "Properties of a job with GPUs, once for each of its nodes";
        self.numbers("gpool_job_info", help, info);
        let id = |job: &str| vec![("job_id", job.to_owned())];
        let utilization = jobs.iter().filter(|(_, (_, it))| it.n_utilized > 0.0);
        let utilization =
            utilization.map(|(job, (_, it))| (id(job), it.utilization / it.n_utilized));
        let help = "Fraction of time with a running kernel, the mean over the GPUs of the job";
        self.numbers("gpool_job_gpu_utilization_ratio", help, utilization);
        let memory = jobs.iter().filter_map(|(job, (_, it))| Some((id(job), float(it.memory?))));
        let help = "GPU memory in use on the GPUs of the job";
        self.numbers("gpool_job_gpu_memory_bytes", help, memory);
    }
}
