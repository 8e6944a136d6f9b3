//! Files of other tools as jobs of gpool: dstack, SkyPilot, pods of Run:ai and KAI,
//! docker-compose. Text in, jobs and notes out; it reads no files.
//!
//! Each key of a file is taken, or has a note with its line.

#![forbid(unsafe_code)]

mod amounts;
mod compose;
mod compose_resources;
mod compose_service;
mod dstack;
mod dstack_resources;
mod gpus;
mod interpolate;
mod job;
mod keys;
mod kind;
mod note;
mod order;
mod pod;
mod pod_container;
mod pod_labels;
mod printable;
mod render;
mod skypilot;
mod skypilot_resources;
mod surroundings;
mod variables;
mod words;

pub use gpool_yaml::YamlError;
pub use job::{Dependency, Flag, ImportedJob};
pub use kind::FileKind;
pub use note::{Fate, Note};
pub use surroundings::Surroundings;

use note::Notes;
use printable::{is_obeyed, printable};

/// The jobs of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub kind: FileKind,
    /// Each after those that it waits for.
    pub jobs: Vec<ImportedJob>,
    /// Keys that are not taken as they are, by line.
    pub notes: Vec<Note>,
}

impl Import {
    /// Reads a file; its keys tell which tool it is for.
    ///
    /// # Errors
    /// It is not YAML, is for no known tool, has wrong types, or gpool can't run its jobs.
    pub fn read(text: &str, surroundings: &Surroundings<'_>) -> Result<Self, YamlError> {
        Self::read_tree(text, surroundings).map_err(|error| printable(&error))
    }

    fn read_tree(text: &str, surroundings: &Surroundings<'_>) -> Result<Self, YamlError> {
        let documents = gpool_yaml::documents(text)?;
        let kind = FileKind::of(&documents)?;
        let mut notes = Notes::default();
        let jobs = match kind {
            FileKind::Dstack => dstack::jobs(&documents, surroundings, &mut notes)?,
            FileKind::SkyPilot => skypilot::jobs(&documents, surroundings, &mut notes)?,
            FileKind::Pods => pod::jobs(&documents, &mut notes)?,
            FileKind::Compose => compose::jobs(&documents, surroundings, &mut notes)?,
        };
        // The commands are printed.
        let is_unprintable = |job: &ImportedJob| {
            let words = job.words();
            words.iter().chain(&job.command).flat_map(|word| word.chars()).any(is_obeyed)
        };
        if let Some(job) = jobs.iter().find(|job| is_unprintable(job)) {
            let what = "a value of the job has characters that control a terminal";
            return Err(YamlError::new(job.line, what).advice("write them with printf in a script"));
        }
        Ok(Self { kind, jobs, notes: notes.by_line() })
    }
}
