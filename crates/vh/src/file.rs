//! Finds and reads valohai.yaml.

use std::path::{Path, PathBuf};

use gpool_cli::failure::{Failure, Result};
use gpool_valohai::Document;
use gpool_valohai::config::{Config, Step};
use gpool_valohai::finding::Level;
use gpool_wire::catalogue;

use crate::failure::invalid;

/// The name of the file.
pub const NAME: &str = "valohai.yaml";

/// The folder of the project: the current one or the nearest above it with the file.
///
/// # Errors
/// No folder has the file.
pub fn project(yaml: &str) -> Result<PathBuf> {
    let here = std::env::current_dir()
        .map_err(|error| invalid(format!("can't find the current folder: {error}")))?;
    let found = here.ancestors().find(|folder| folder.join(yaml).is_file());
    found.map(Path::to_path_buf).ok_or_else(|| {
        Failure::new(catalogue::SCRIPT_MISSING, format!("there is no {yaml} here"))
            .why(format!("neither {} nor a folder above it has the file", here.display()))
            .tip("cd PROJECT, or gpool vh exec run STEP --yaml FILE")
    })
}

/// Reads a file.
///
/// # Errors
/// It can't be read.
pub fn text(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|error| {
        Failure::new(catalogue::SCRIPT_MISSING, format!("can't read {}: {error}", path.display()))
    })?;
    String::from_utf8(bytes).map_err(|_| invalid(format!("{} is not UTF-8", path.display())))
}

/// The items of a file without errors in its steps, with warnings about it.
///
/// # Errors
/// The file has errors.
pub fn config(text: &str, yaml: &str) -> Result<(Config, Vec<String>)> {
    let document = Document::read(text);
    let shown = |level| {
        let findings = document.findings.iter();
        findings.filter(move |it| it.level == level).map(|it| format!("{yaml}, {it}"))
    };
    if document.can_run() {
        let all = shown(Level::Error).chain(shown(Level::Warning)).collect();
        return Ok((document.config, all));
    }
    let mut errors = shown(Level::Error);
    let first = errors.next().unwrap_or_default();
    let failure = errors.take(9).fold(invalid(first), Failure::why);
    Err(failure.tip(format!("gpool vh lint {yaml}")))
}

/// The step of this name, or the only one that begins with it.
///
/// # Errors
/// There is none, or several begin with it.
pub fn step<'c>(config: &'c Config, name: &str, yaml: &str) -> Result<&'c Step> {
    if let Some(step) = config.step(name) {
        return Ok(step);
    }
    let mut near = config.steps.iter().filter(|step| step.name.starts_with(name));
    match (near.next(), near.next()) {
        (Some(step), None) => Ok(step),
        (first, _) => {
            let what = match first {
                Some(_) => format!("several steps of {yaml} begin with {name:?}"),
                None => format!("{yaml} has no step {name:?}"),
            };
            let names: Vec<&str> = config.steps.iter().map(|step| step.name.as_str()).collect();
            Err(invalid(what).why(format!("its steps are {}", names.join(", "))))
        }
    }
}
