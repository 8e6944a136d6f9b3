//! Running another program as one step of a command: announced, without standard input, from the
//! root of the repository.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use cargo_metadata::{Metadata, MetadataCommand};

/// The folder that holds the workspace.
///
/// # Panics
/// Never: this package lies in a folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the package lies inside the workspace")
        .to_owned()
}

/// The packages of this repository.
///
/// # Errors
/// If cargo cannot read them.
pub fn metadata() -> anyhow::Result<Metadata> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml")).no_deps();
    command.exec().context("reading cargo metadata")
}

/// The cargo that started this program, so that a step never switches the toolchain.
pub fn cargo(arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    command(program, arguments)
}

/// A program that is looked up in `PATH`.
pub fn command(program: impl Into<OsString>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program.into());
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}

/// Says on standard error which step begins.
pub fn announce(title: &str) {
    eprintln!("\n== {title}");
}

/// Runs a step to its end and tells whether it succeeded.
///
/// # Errors
/// If the program cannot be started at all.
pub fn succeeds(title: &str, mut command: Command) -> anyhow::Result<bool> {
    announce(title);
    let status = command
        .status()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    Ok(status.success())
}
