//! A file for each verb. Each has its arguments and one function that runs it.

pub mod attach;
pub mod backup;
pub mod cancel;
pub mod completion;
pub mod debug;
pub mod demo;
pub mod doctor;
mod doctor_service;
pub mod down;
pub mod drain;
pub mod edit;
pub mod edit_text;
pub mod events;
pub mod exec;
pub mod extend;
pub mod forward;
pub mod gpus;
pub mod help;
pub mod history;
pub mod hold;
pub mod init;
pub mod install_shims;
pub mod logs;
pub mod man;
pub mod nodes;
pub mod note;
pub mod notify;
pub mod pause;
pub mod policy;
pub mod pool;
pub mod prio;
pub mod project;
pub mod queue;
pub mod quota;
pub mod release;
pub mod report;
pub mod requeue;
pub mod reserve;
pub mod restore;
pub mod retry;
pub mod run;
pub mod service;
pub mod shell;
pub mod shim;
pub mod show;
pub mod signal;
pub mod sim;
pub mod simulate;
mod simulate_if;
pub mod status;
pub mod submit;
pub mod up;
mod up_folders;
mod up_nodes;
pub mod user;
pub mod verify;
pub mod version;
pub mod wait;
pub mod why;

/// In which form a page is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum PageFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
}

impl PageFormat {
    /// The form, with `--json` meaning `-o json`.
    #[must_use]
    pub fn or_json(self, json: bool) -> Self {
        if json && self == Self::Text { Self::Json } else { self }
    }
}
