//! Where the maps of a user are.

use std::path::PathBuf;

use gpool_cli::failure::{Failure, Result};
use gpool_wire::catalogue;

/// The folder of a map: `$XDG_DATA_HOME/gpool/maps/NAME`.
///
/// # Errors
/// There is no home.
pub fn folder_of(name: &str) -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let base = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(set("HOME")?.join(".local/share")));
    base.map(|base| base.join("gpool/maps").join(name)).ok_or_else(|| {
        Failure::new(catalogue::INVALID, "there is no folder for maps: set XDG_DATA_HOME")
    })
}

/// The failure for a map that does not exist.
#[must_use]
pub fn no_map(name: &str) -> Failure {
    Failure::new(catalogue::NO_SUCH_JOB, format!("there is no map {name}"))
        .tip("gpool queue   (its row is group:NAME)")
}
