//! The pools for the environments of a project: table `environments` of `gpool.toml` beside
//! valohai.yaml.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use gpool_cli::failure::Result;
use serde::Deserialize;

use crate::failure::invalid;

/// The name of the file.
const NAME: &str = "gpool.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectSettings {
    /// Pools by the names of environments.
    #[serde(default)]
    environments: BTreeMap<String, String>,
}

/// The pool for an environment, if the file of the project names one.
///
/// # Errors
/// The file can't be read, or has other keys.
pub fn pool(project: &Path, environment: &str) -> Result<Option<String>> {
    let path = project.join(NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(invalid(format!("can't read {}: {error}", path.display()))),
    };
    let mut settings: ProjectSettings = toml::from_str(&text).map_err(|error| {
        // The line of the error, counted from 1.
        let start = error.span().map_or(0, |span| span.start);
        let before = text.as_bytes().iter().take(start);
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        invalid(format!("{}, line {line}: {}", path.display(), error.message()))
            .why("gpool.toml of a project has one table, environments")
            .tip("[environments]\nENVIRONMENT = \"POOL\"")
    })?;
    Ok(settings.environments.remove(environment))
}
