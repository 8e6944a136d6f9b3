//! What the server's process takes, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// Figures of this process, under the names that every exporter uses.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct ProcessMetrics {
    pub resident_bytes: Option<u64>,
    pub virtual_bytes: Option<u64>,
    pub cpu_seconds: f64,
    pub n_open_files: Option<u64>,
}

impl ProcessMetrics {
    pub fn now() -> Self {
        Self {
            resident_bytes: memory("VmRSS:"),
            virtual_bytes: memory("VmSize:"),
            cpu_seconds: cpu_seconds(),
            n_open_files: fs::read_dir("/proc/self/fd").ok().map(|files| files.count() as u64),
        }
    }
}

fn memory(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let time = Duration::try_from(time).unwrap_or_default();
    time.as_secs_f64()
}
