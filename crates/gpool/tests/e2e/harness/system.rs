//! The machine of the tests: its user and files.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Prints that a test is skipped; the output shows it although the test passes.
pub fn skip(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Not by `eprintln`, since the output of passing tests is captured.
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Writes a file that only its user can read.
pub fn write_private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
