//! The job with a timed first instruction: this program, which writes the time into a file and
//! ends.

use std::path::Path;

/// The first argument if this program is such a job.
pub const STAMP_ARGUMENT: &str = "__stamp";

/// Nanoseconds since the boot of the machine, the same for every process.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Does the work of `gpool-lab __stamp FILE`.
///
/// # Errors
/// The file can't be written.
pub fn write_stamp(path: &Path) -> std::io::Result<()> {
    let now = now_ns();
    // Renamed into place, so that a reader never sees half of it.
    let partial = path.with_extension("partial");
    std::fs::write(&partial, now.to_string())?;
    std::fs::rename(partial, path)
}
