//! Python's virtual environments, and those of uv projects.

use std::path::{Path, PathBuf};

use gpool_wire::Activate;

use super::text;
use crate::errors;
use crate::failure::{Failure, Result};

/// The environment of a folder's uv project.
pub fn of_uv(directory: &Path, may_be_made: bool) -> Result<Activate> {
    let is_project = |folder: &&Path| {
        folder.join("uv.lock").is_file() || folder.join("pyproject.toml").is_file()
    };
    let Some(project) = directory.ancestors().find(is_project) else {
        let what = format!("{} is not in a uv project", directory.display());
        return Err(Failure::new(errors::NO_SOFTWARE, what)
            .why("it and the folders above have no uv.lock or pyproject.toml")
            .tip("uv init, or --cwd FOLDER"));
    };
    let named = std::env::var_os("UV_PROJECT_ENVIRONMENT").filter(|it| !it.is_empty());
    let folder = project.join(named.map_or_else(|| PathBuf::from(".venv"), PathBuf::from));
    if !is_environment(&folder) && !may_be_made {
        let what = format!("the uv project {} has no environment yet", project.display());
        return Err(Failure::new(errors::NO_SOFTWARE, what)
            .why(format!("there is no {}", folder.display()))
            .tip("uv sync")
            .tip("--uv --setup 'uv sync'   (creates it before the job waits for GPUs)"));
    }
    Ok(Activate::Venv(text(&folder)?))
}

/// A virtual environment by its folder.
pub fn of_venv(path: &str, directory: &Path, may_be_made: bool) -> Result<Activate> {
    let folder = directory.join(path);
    if is_environment(&folder) || may_be_made {
        return Ok(Activate::Venv(text(&folder)?));
    }
    let what = format!("{} is not a Python virtual environment", folder.display());
    let failure = Failure::new(errors::NO_SOFTWARE, what).why("it has no pyvenv.cfg");
    let mut near: Vec<String> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| is_environment(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    near.sort();
    Err(match near.first() {
        Some(first) => failure
            .why(format!("{} has {}", directory.display(), near.join(", ")))
            .tip(format!("--venv {first}")),
        None => failure.tip(format!("python3 -m venv {path}")),
    })
}

fn is_environment(folder: &Path) -> bool {
    folder.join("pyvenv.cfg").is_file()
}
