//! What earlier restores showed about this machine's driver: whether it moves memory to other
//! devices. A file with one line, the version and `moves` or `stays`.

use std::path::Path;

/// Whether this version of the driver moves memory; `None` if that is not known.
pub(crate) fn read(file: &Path, driver: &str) -> Option<bool> {
    let text = std::fs::read_to_string(file).ok()?;
    match text.trim().split_once(' ')? {
        (version, "moves") if version == driver => Some(true),
        (version, "stays") if version == driver => Some(false),
        _ => None,
    }
}

/// Why memory is not moved once a restore came to the old device.
pub(crate) fn stays(driver: &str) -> String {
    format!("driver {driver} restored on the old GPU when it was tried before")
}

/// Notes it. Without the note, the next move is as careful as the first.
pub(crate) fn write(file: &Path, driver: &str, it_moves: bool) {
    let word = if it_moves { "moves" } else { "stays" };
    let draft = file.with_extension(std::process::id().to_string());
    if std::fs::write(&draft, format!("{driver} {word}\n")).is_ok() {
        let _ = std::fs::rename(&draft, file);
    }
}
