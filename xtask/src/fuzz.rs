//! `cargo xtask fuzz`: every parser of what users send, for a while each.

use anyhow::bail;

/// Runs the fuzz targets.
///
/// # Errors
/// If an argument is not known, or cargo cannot be started.
pub fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    bail!("there are no fuzz targets yet: {arguments:?}")
}
