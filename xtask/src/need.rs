//! What the tests need beside cargo: a few programs, each with the Debian package that brings it.
//! Missing ones are installed where that is allowed; elsewhere it is said what to install.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};

use crate::step;

/// A program and where it comes from.
struct Program {
    name: &'static str,
    package: &'static str,
    /// Tests that can't do without it say so and are skipped, instead of all of them failing.
    can_be_absent: bool,
}

/// The C compiler builds the bundled SQLite, that of C++ the fuzzer's runtime; tests run scripts
/// under bash, as jobs do, and move the clock by faketime's library.
const PROGRAMS: &[Program] = &[
    Program { name: "cc", package: "gcc", can_be_absent: false },
    Program { name: "c++", package: "g++", can_be_absent: true },
    Program { name: "bash", package: "bash", can_be_absent: false },
    Program { name: "faketime", package: "faketime", can_be_absent: true },
];

/// Makes sure that every program is there.
///
/// # Errors
/// If one is missing and cannot be installed; the message names the packages.
pub fn provide() -> anyhow::Result<()> {
    let missing = missing_packages(on_path);
    if missing.is_empty() {
        return Ok(());
    }
    let installed = install(&missing);
    match installed {
        Err(error) if missing_packages(|name| on_path(name) || can_be_absent(name)).is_empty() => {
            eprintln!("{error:#}\n  some tests are skipped");
            Ok(())
        }
        other => other,
    }
}

fn install(missing: &[&str]) -> anyhow::Result<()> {
    let names = missing.join(" ");
    let apt_get = "apt-get install --yes --no-install-recommends";
    if !is_root()? || !on_path("apt-get") {
        bail!("the tests need what these packages bring: {names}\n  try  {apt_get} {names}");
    }
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(missing);
    let mut install = step::command("apt-get", &arguments);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    let mut update = step::command("apt-get", &["update"]);
    update.env("DEBIAN_FRONTEND", "noninteractive");
    if step::succeeds("apt-get update", update)? && step::succeeds("apt-get install", install)? {
        return Ok(());
    }
    bail!("installing {names} failed; see the output of apt-get above")
}

fn missing_packages(present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    PROGRAMS.iter().filter(|it| !present(it.name)).map(|it| it.package).collect()
}

fn can_be_absent(name: &str) -> bool {
    PROGRAMS.iter().any(|it| it.name == name && it.can_be_absent)
}

/// Whether a program of that name would be found and may be run.
pub fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_program(&folder.join(name)))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

fn is_root() -> anyhow::Result<bool> {
    let own = Path::new("/proc/self").metadata().context("reading /proc/self")?;
    Ok(own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        assert_eq!(missing_packages(|name| name != "cc"), ["gcc"]);
        assert!(missing_packages(|_| true).is_empty());
        assert_eq!(missing_packages(can_be_absent), ["gcc", "bash"]);
    }

    #[test]
    fn a_program_is_a_file_that_may_be_run() {
        assert!(on_path("sh"));
        assert!(!on_path("no-program-has-this-name"));
        assert!(!is_program(Path::new("/etc")));
    }
}
