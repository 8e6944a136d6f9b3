//! Environment modules: the script that defines `module` in a shell, from Environment Modules or
//! Lmod. The job loads the modules when it starts.

use std::env;
use std::path::{Path, PathBuf};

use gpool_wire::Modules;

use super::text;
use crate::errors;
use crate::failure::{Failure, Result};

/// The usual paths of the script.
const USUAL: [&str; 4] = [
    "/usr/share/modules/init/bash",
    "/usr/share/Modules/init/bash",
    "/usr/share/lmod/lmod/init/bash",
    "/opt/apps/lmod/lmod/init/bash",
];

/// Finds the script; warns of modules that are not visible now.
pub(super) fn find(names: &[&str]) -> Result<(Modules, Vec<String>)> {
    if let Some(name) = names.iter().find(|name| name.is_empty() || name.starts_with('-')) {
        let what = format!("--module: {name:?} is not a module name");
        return Err(Failure::new(errors::INVALID, what).tip("--module cuda/12.4,gcc"));
    }
    let path = |name: &str| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let by_variable = ["MODULESHOME", "LMOD_PKG"].into_iter().filter_map(path);
    let tried: Vec<PathBuf> = by_variable
        .flat_map(|home| [home.join("init/bash"), home.join("init/sh")])
        .chain(USUAL.map(PathBuf::from))
        .collect();
    let Some(init) = tried.iter().find(|path| path.is_file()) else {
        let what = "there are no environment modules on this machine";
        return Err(Failure::new(errors::NO_SOFTWARE, what)
            .why("MODULESHOME and LMOD_PKG are not set, and the usual folders have no script")
            .tip("MODULESHOME=/path/to/modules gpool run --module …"));
    };
    let folders: Vec<PathBuf> =
        env::var_os("MODULEPATH").map(|it| env::split_paths(&it).collect()).unwrap_or_default();
    let warnings = names
        .iter()
        .filter(|name| !folders.is_empty() && !is_seen(name, &folders))
        .map(|name| {
            format!(
                "there is no module {name} in MODULEPATH now; the job looks again when it starts"
            )
        })
        .collect();
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Ok((Modules { init: text(init)?, names }, warnings))
}

fn is_seen(name: &str, folders: &[PathBuf]) -> bool {
    let there =
        |folder: &Path| folder.join(name).exists() || folder.join(format!("{name}.lua")).exists();
    folders.iter().any(|folder| there(folder))
}
