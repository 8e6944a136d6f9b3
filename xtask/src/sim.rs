//! `cargo xtask sim`: the simulation with faults, in a release build.

use crate::step;

/// Runs the simulation with these arguments.
///
/// # Errors
/// If cargo cannot be started.
pub fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command =
        step::cargo(&["run", "--locked", "--quiet", "--release", "--package", "gpool-sim", "--"]);
    command.args(arguments);
    step::succeeds("simulation", command)
}
