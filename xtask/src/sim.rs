//! `cargo xtask sim`: the simulation with faults, built with optimisation.

use crate::step;

/// Passes its arguments on.
///
/// # Errors
/// If cargo cannot be started.
pub fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command =
        step::cargo(&["run", "--locked", "--quiet", "--release", "--package", "gpool-sim", "--"]);
    command.args(arguments);
    step::succeeds("simulation", command)
}
