//! What a running job has used so far, from the control groups of its tasks.

use gpool_model::{Bytes, agent};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::time::seconds;

/// Usage of a running job so far: the sum over its tasks. A value is absent if the control groups
/// of its nodes do not count it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct LiveUsage {
    /// CPU time in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Memory of all processes now, with cached files, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Peak memory of all processes, with cached files, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak: Option<u64>,
    /// Bytes read from block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

impl LiveUsage {
    /// The sum over tasks; `None` if nothing is counted.
    #[must_use]
    pub fn of_tasks(tasks: &[agent::LiveUsage]) -> Option<Self> {
        let sum = |of: fn(&agent::LiveUsage) -> Option<Bytes>| {
            tasks.iter().filter_map(of).reduce(Bytes::saturating_add).map(Bytes::get)
        };
        let cpu = tasks.iter().filter_map(|it| it.cpu);
        let all = Self {
            cpu_s: cpu.reduce(|one, other| one.saturating_add(other)).map(seconds),
            memory: sum(|it| it.memory),
            memory_peak: sum(|it| it.memory_peak),
            read_bytes: sum(|it| it.read),
            written_bytes: sum(|it| it.written),
        };
        (all != Self::default()).then_some(all)
    }

    /// Each value as a sentence part, with its label: CPU, memory and I/O.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let bytes = |bytes: u64| Bytes::new(bytes).to_string();
        let peak = self.memory_peak.map(|peak| format!("at most {}", bytes(peak)));
        let memory = self.memory.map(|now| format!("{} now", bytes(now)));
        let memory: Vec<String> = memory.into_iter().chain(peak).collect();
        let io = io(self.read_bytes, self.written_bytes);
        let memory =
            (!memory.is_empty()).then(|| format!("{}, with cached files", memory.join(", ")));
        [("memory", memory), ("disk", io)]
            .into_iter()
            .filter_map(|(label, text)| Some((label, text?)))
            .collect()
    }
}

/// Bytes read and written, as text; `None` if neither is known.
#[must_use]
pub fn io(read: Option<u64>, written: Option<u64>) -> Option<String> {
    let part = |word: &str, bytes: Option<u64>| Some(format!("{word} {}", Bytes::new(bytes?)));
    let parts = [part("read", read), part("wrote", written)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
