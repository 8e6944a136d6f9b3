//! Measures the cost of an idle server with its agent, which only checks the devices.

use std::time::{Duration, Instant};

use gpool_cli::failure::Result;

use super::Options;
use super::figure::Figure;
use super::process::{memory_of, threads_cpu_ms_of};

/// Pause until the start and the first inventory are over.
const SETTLE: Duration = Duration::from_secs(2);

/// Measures with the devices and without any: the difference is gpool's cost of checking them.
/// Simulated devices answer at once, so the cost of a driver is not included.
///
/// # Errors
/// The cluster can't be started.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let (per_cent, memory) = watch(&options.devices, options.idle_s)?;
    let (bare_per_cent, _) = watch("none", options.idle_s)?;
    Ok(vec![
        Figure::new(
            "idle_memory_mb",
            "memory of server and agent, idle",
            memory as f64 / 1e6,
            "MB",
        )
        .below(30.0),
        Figure::new(
            "idle_cpu_percent",
            "CPU of server and agent, devices sampled each second",
            per_cent,
            "% of a core",
        )
        .below(0.5),
        Figure::new("bare_cpu_percent", "the same without devices", bare_per_cent, "% of a core"),
    ])
}

/// Returns the percentage of a core, and the bytes of memory.
fn watch(devices: &str, seconds: u32) -> Result<(f64, u64)> {
    let cluster = super::cluster(devices)?;
    std::thread::sleep(SETTLE);
    let pids: Vec<u32> = {
        let server = cluster.server_pid();
        std::iter::once(server).chain(gpool_sys::proc::descendants(server)).collect()
    };
    let cpu_ms = || -> f64 { pids.iter().map(|pid| threads_cpu_ms_of(*pid)).sum() };
    let (before, began) = (cpu_ms(), Instant::now());
    std::thread::sleep(Duration::from_secs(u64::from(seconds)));
    // Threads that have ended meanwhile no longer count.
    let used = (cpu_ms() - before).max(0.0);
    let per_cent = used / 10.0 / began.elapsed().as_secs_f64();
    let memory = memory_of(cluster.server_pid());
    cluster.end()?;
    Ok((per_cent, memory))
}
