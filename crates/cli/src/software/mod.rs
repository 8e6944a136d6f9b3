//! The software environment of a job: checked at submission, so that errors appear at once, and
//! passed as absolute paths.

pub mod conda;
pub mod env_file;
mod modules;
pub mod python;

use std::path::{Path, PathBuf};

use gpool_wire::{Activate, Setup};

use crate::args::software_flags::SoftwareFlags;
use crate::errors;
use crate::failure::{Failure, Result};

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Software {
    /// The environments to activate, in order.
    pub activate: Vec<Activate>,
    pub setup: Option<Setup>,
    /// Warnings about problems at the start of the job.
    pub warnings: Vec<String>,
}

/// Finds the software that flags name, for a job in a folder.
///
/// # Errors
/// It does not exist, or more than one Python is named.
pub fn find(flags: &SoftwareFlags, directory: &Path) -> Result<Software> {
    let mut found = Software::default();
    let names: Vec<&str> = flags.module.iter().flat_map(|names| names.split(',')).collect();
    if !names.is_empty() {
        let (modules, warnings) = modules::find(&names)?;
        found.activate.push(Activate::Modules(modules));
        found.warnings = warnings;
    }
    let has_setup = flags.setup.is_some();
    let python = match (&flags.conda, flags.uv, &flags.venv) {
        (None, false, None) => None,
        (Some(name), false, None) => Some(conda::find(name, directory, has_setup)?),
        (None, true, None) => Some(python::of_uv(directory, has_setup)?),
        (None, false, Some(path)) => Some(python::of_venv(path, directory, has_setup)?),
        (..) => {
            let what = "a job can have only one of --conda, --uv and --venv";
            return Err(Failure::new(errors::USAGE, what));
        }
    };
    found.activate.extend(python);
    found.setup = flags.setup.clone().map(|run| {
        // The setup may create an environment, so it can't use that one.
        let is_there = |it: &&Activate| path_of(it).exists();
        Setup { run, activate: found.activate.iter().filter(is_there).cloned().collect() }
    });
    Ok(found)
}

/// The software of a job that goes to another machine: only a setup, since environments are there.
///
/// # Errors
/// A flag names an environment.
pub fn refuse_remote(flags: &SoftwareFlags) -> Result<Software> {
    let is_named = [
        ("--conda", flags.conda.is_some()),
        ("--uv", flags.uv),
        ("--venv", flags.venv.is_some()),
        ("--module", !flags.module.is_empty()),
    ];
    if let Some((flag, _)) = is_named.iter().find(|(_, is_named)| *is_named) {
        let what =
            format!("{flag} looks for software on this machine, and the job runs on another");
        return Err(Failure::new(gpool_wire::catalogue::NOT_LOCAL, what)
            .tip("activate it in the script, e.g. source /opt/torch/bin/activate"));
    }
    let setup = flags.setup.clone().map(|run| Setup { run, activate: Vec::new() });
    Ok(Software { setup, ..Software::default() })
}

fn path_of(activate: &Activate) -> &Path {
    Path::new(match activate {
        Activate::Conda(path) | Activate::Venv(path) => path,
        Activate::Modules(modules) => &modules.init,
    })
}

/// A path in the form of the API.
fn text(path: &Path) -> Result<String> {
    let path: PathBuf = path.components().collect();
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let what = format!("the path {} is not UTF-8", path.display());
        Failure::new(gpool_wire::catalogue::NOT_UTF8, what)
    })
}
