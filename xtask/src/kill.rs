//! `cargo xtask kill`: more rounds of the tests that kill the real binary.

use anyhow::bail;

use crate::step;

/// Runs the kill tests: `--rounds` kills on each of two clusters, and all failpoints once for each
/// hundred of them.
///
/// # Errors
/// If an argument is unknown, or cargo cannot be started.
pub fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command = step::cargo(&["test", "--locked", "--package", "gpool", "--test", "e2e"]);
    command.args(["--features", "failpoints"]);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let variable = match *argument {
            "--rounds" => "GPOOL_KILL_ROUNDS",
            "--seed" => "GPOOL_TEST_SEED",
            "--release" => {
                command.arg("--release");
                continue;
            }
            other => {
                bail!("unknown argument {other:?}; there are --rounds N, --seed N and --release")
            }
        };
        let Some(value) = rest.next().filter(|it| it.parse::<u64>().is_ok()) else {
            bail!("{argument} needs a number");
        };
        command.env(variable, value);
    }
    command.args(["kill::", "--", "--nocapture"]);
    step::succeeds("kills", command)
}
