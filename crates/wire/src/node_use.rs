//! The use of a job's GPUs on each of its nodes.

use gpool_model::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The use of a job's GPUs on one node, in all its attempts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeUse {
    /// Name of the node.
    pub node: String,
    /// Allocated GPUs times hours.
    pub gpu_hours: f64,
    /// Average fraction of the time with running kernels, 0 to 1. `null` if not measured.
    pub gpu_utilization: Option<f64>,
    /// Whole GPUs in the last attempt. Absent in messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<DeviceUse>,
}

/// The use of one whole GPU by the last attempt of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeviceUse {
    /// Index on its node.
    pub index: u32,
    /// Average fraction of the time with running kernels, 0 to 1. `null` if not measured.
    pub utilization: Option<f64>,
    /// Used memory in bytes, the largest mean of a minute. `null` if not measured.
    pub memory_peak: Option<u64>,
}

impl NodeUse {
    /// The use on each node as text, with the name of the node. Empty for a single GPU: its use is
    /// that of the job.
    #[must_use]
    pub fn texts(all: &[Self]) -> Vec<(&str, String)> {
        let is_one = matches!(all, [only] if only.gpus.len() < 2);
        let known = all.iter().filter(|node| !is_one && node.is_known());
        known.map(|node| (node.node.as_str(), node.text())).collect()
    }

    fn is_known(&self) -> bool {
        self.gpu_utilization.is_some() || self.gpus.iter().any(|gpu| !gpu.text().is_empty())
    }

    fn text(&self) -> String {
        let all = self.gpu_utilization.map(|busy| format!("busy {}", percent(busy)));
        let each = self.gpus.iter().filter_map(|gpu| {
            let text = Some(gpu.text()).filter(|text| !text.is_empty())?;
            Some(format!("GPU {}: {text}", gpu.index))
        });
        all.into_iter().chain(each).collect::<Vec<_>>().join(" · ")
    }
}

impl DeviceUse {
    fn text(&self) -> String {
        let memory = self.memory_peak.map(|peak| format!("at most {}", Bytes::new(peak)));
        let parts = self.utilization.map(percent).into_iter().chain(memory);
        parts.collect::<Vec<_>>().join(", ")
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}
