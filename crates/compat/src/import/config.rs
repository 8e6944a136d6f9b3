//! gflow's settings: the address of its daemon, and the corresponding settings of gpool.

use std::path::{Path, PathBuf};

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_model::escape::repeated;
use toml::{Table, Value};

/// The default address of gflow.
const URL: &str = "http://localhost:59000";

/// The settings of gflow.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    pub url: String,
    path: Option<PathBuf>,
    table: Table,
}

/// The sections and keys of gflow, with their counterparts in gpool.
const COUNTERPARTS: &[(&str, &str)] = &[
    ("daemon.host", "the API of gpool is a local socket"),
    ("daemon.port", "the API of gpool is a local socket"),
    ("daemon.gpus", "gpus in gpool.toml"),
    ("daemon.gpu_allocation_strategy", "strategy in gpool.toml"),
    ("daemon.gpu_poll_interval_secs", "not needed: gpool checks GPUs when needed"),
    ("daemon.fair_share", "the order of jobs is a policy: gpool help scheduling"),
    ("timezone", "TZ of the environment; --utc for one command"),
    ("executor", "not needed: each job has its own shepherd process"),
    ("projects", "not needed: gpool project create creates projects"),
    ("quota", "user_jobs_max in gpool.toml limits the jobs of each user"),
    ("notifications", "--notify done,fail@URL posts to a webhook; there is no mail"),
];

impl Config {
    /// Reads the named file, or the usual one if it exists.
    pub fn read(named: Option<&Path>) -> Result<Self> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => match usual_path().filter(|path| path.exists()) {
                Some(path) => path,
                None => return Ok(Self { url: URL.to_owned(), ..Self::default() }),
            },
        };
        let bad = |what: String| Failure::new(errors::BAD_CONFIG, what).tip("--config FILE");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| bad(format!("can't read {}: {error}", path.display())))?;
        let table: Table = toml::from_str(&text).map_err(|error| {
            bad(format!(
                "{}: {}",
                path.display(),
                repeated(error.message().lines().next().unwrap_or_default())
            ))
        })?;
        let daemon = table.get("daemon");
        let host = daemon.and_then(|daemon| daemon.get("host")?.as_str()).unwrap_or("localhost");
        let port = daemon.and_then(|daemon| daemon.get("port")?.as_integer()).unwrap_or(59000);
        // A daemon that listens on all addresses also answers on this one.
        let host = if host == "0.0.0.0" { "127.0.0.1" } else { host };
        Ok(Self { url: format!("http://{host}:{port}"), path: Some(path), table })
    }

    /// The counterpart of each setting, one line each.
    #[must_use]
    pub fn report(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(path) = &self.path {
            lines.push(format!("gflow's settings are in {}", path.display()));
        }
        for (name, value) in &self.table {
            match value {
                Value::Table(keys) if name == "daemon" => {
                    lines.extend(keys.iter().map(|(key, _)| self.line(&format!("daemon.{key}"))));
                }
                _ => lines.push(self.line(name)),
            }
        }
        lines
    }

    fn line(&self, name: &str) -> String {
        let known = COUNTERPARTS.iter().find(|(known, _)| *known == name);
        format!("  {name}: {}", known.map_or("gpool has no such setting", |(_, what)| what))
    }

    /// The settings for `gpool.toml`.
    #[must_use]
    pub fn settings(&self) -> String {
        let mut text = "# Settings of gpool that correspond to gflow's.\n".to_owned();
        let Some(Value::Table(daemon)) = self.table.get("daemon") else { return text };
        match daemon.get("gpus") {
            Some(Value::Array(gpus)) => {
                let indexes: Vec<String> = gpus.iter().map(ToString::to_string).collect();
                text.push_str(&format!("gpus = \"{}\"\n", indexes.join(",")));
            }
            Some(Value::String(gpus)) => text.push_str(&format!("gpus = {:?}\n", gpus)),
            _ => {}
        }
        if let Some(Value::String(how)) = daemon.get("gpu_allocation_strategy") {
            text.push_str(&format!("strategy = {how:?}\n"));
        }
        text
    }
}

fn usual_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    folder.map(|folder| folder.join("gflow/gflow.toml"))
}
