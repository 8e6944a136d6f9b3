//! `cargo xtask check`: all automatic checks beside the tests. Every step runs even if an earlier
//! one failed, so that one run shows all faults.

use std::process::{Command, Stdio};

use crate::step::{announce, cargo, succeeds};
use crate::test::FEATURES;
use crate::{document, layering, names, prose, shape, tidy};

/// Pinned, since newer releases changed the meaning of their configuration; raise it together with
/// deny.toml.
const CARGO_DENY_VERSION: &str = "0.20.2";

/// Runs all checks and returns the names of the failed ones.
///
/// # Errors
/// If a program cannot be started or the workspace cannot be read.
pub fn run() -> anyhow::Result<Vec<&'static str>> {
    let mut failed = Vec::new();
    let mut note = |title: &'static str, passed: bool| {
        if !passed {
            failed.push(title);
        }
    };
    note("tidy", reported("tidy", &tidy::violations()?));
    note("documents", reported("documents", &document::violations()?));
    note("layering", reported("layering", &layering::violations()?));
    note("shape", reported("shape", &shape::violations()?));
    note("names", reported("names", &names::violations()?));
    note("prose", reported("prose", &prose::violations()?));
    note("format", succeeds("format", cargo(&["fmt", "--all", "--check"]))?);
    note("lints", succeeds("lints", clippy())?);
    note("documentation", succeeds("documentation", rustdoc())?);
    note("dependencies", dependencies()?);
    Ok(failed)
}

fn reported(title: &str, violations: &[String]) -> bool {
    announce(title);
    for violation in violations {
        eprintln!("{violation}");
    }
    violations.is_empty()
}

/// Compiles everything once more, as metadata without machine code, which the documentation step
/// reuses. `--all-targets` would add the libraries as unit tests, which they do not have.
fn clippy() -> Command {
    let mut command = cargo(&["clippy", "--workspace", "--lib", "--bins", "--tests", "--locked"]);
    command.args(FEATURES).args(["--", "-D", "warnings"]);
    command
}

fn rustdoc() -> Command {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    command.args(FEATURES);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Checks licences, bans and sources, which need no network once the dependencies are there.
/// Advisories do, and are left to `cargo deny check advisories`.
fn dependencies() -> anyhow::Result<bool> {
    // The graph covers every platform, so the dependencies of all platforms must be there.
    if !succeeds("fetch dependencies", cargo(&["fetch", "--locked"]))? {
        return Ok(false);
    }
    let installed = cargo(&["deny", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success();
    if !installed && !succeeds("install cargo-deny", install_deny())? {
        return Ok(false);
    }
    let check = ["deny", "--offline", "--locked", "check", "licenses", "bans", "sources"];
    succeeds("dependencies", cargo(&check))
}

/// Installs cargo-deny without optimization: it runs for a second, and compiles for minutes.
fn install_deny() -> Command {
    let mut command = cargo(&["install", "--locked", "--debug", "--no-default-features"]);
    command.args(["cargo-deny", "--version", CARGO_DENY_VERSION]);
    command.env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}
