//! valohai.yaml: parser, checks, command lines of steps, and requests of jobs. It reads no files.

#![forbid(unsafe_code)]

pub mod command;
pub mod config;
pub mod finding;
mod lint;
pub mod marks;
pub mod parameter;
pub mod pipeline;
pub mod request;
mod schema;
pub mod shape;
pub mod source;
pub mod task;

pub use gpool_yaml as yaml;

use config::{Config, Step};
use finding::{Finding, Level};
use marks::UsedKey;

/// A file with its findings.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// Its items; empty if it has wrong types or keys.
    pub config: Config,
    /// Errors and warnings by line.
    pub findings: Vec<Finding>,
    /// The keys that it uses; empty if it has wrong types or keys.
    pub keys: Vec<UsedKey>,
}

impl Document {
    /// Reads and checks a file.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let root = match yaml::parse(text) {
            Ok(root) => root,
            Err(finding) => return Self { findings: vec![finding.into()], ..Self::default() },
        };
        let mut findings = schema::check(&root);
        if findings.iter().any(|finding| !finding.is_tolerable) {
            findings.sort_by_key(|finding| finding.line);
            return Self { findings, ..Self::default() };
        }
        let config = config::read(&root);
        findings.extend(lint::check(&root, &config));
        findings.sort_by_key(|finding| finding.line);
        let mut keys = marks::of(&root);
        keys.extend(config.pipelines.iter().flat_map(|it| pipeline::refused(&config, it)));
        keys.sort_by_key(|key| key.line);
        Self { config, findings, keys }
    }

    /// The worst level of its findings.
    #[must_use]
    pub fn worst(&self) -> Option<Level> {
        self.findings.iter().map(|finding| finding.level).min()
    }

    /// Whether its steps can run.
    #[must_use]
    pub fn can_run(&self) -> bool {
        self.findings.iter().all(|it| it.level == Level::Warning || it.is_tolerable)
    }
}

impl Config {
    /// The step of this name; the last one counts.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.name == name)
    }

    /// The task of this name; the last one counts.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&config::Task> {
        self.tasks.iter().rev().find(|task| task.name == name)
    }
}
