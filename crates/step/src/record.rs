//! The record of an ended step: a line in a file of the run's folder. The shepherd of the task
//! reads it when the task ends.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::SystemTime;

use gpool_cli::session::Session;
use gpool_model::job::{StepEnd, Usage};
use gpool_model::{Bytes, Millis, Timestamp};

use crate::plan::Plan;

/// A variable of this process; `None` if it is empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

pub struct Started(StepEnd);

impl Started {
    /// A step that starts now; `program` is the path of its program.
    pub fn now(number: u32, name: Option<&str>, program: &str, plan: &Plan) -> Self {
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        Self(StepEnd {
            number,
            name: name.map_or_else(|| program.into_owned(), str::to_owned),
            started_at: now(),
            ended_at: now(),
            exit_code: 0,
            n_tasks: u32::try_from(plan.processes.len()).unwrap_or(u32::MAX),
            nodes: plan.nodes().into_iter().map(str::to_owned).collect(),
            usage: Usage::default(),
        })
    }

    /// The line of the step, which ends now.
    pub fn line(self, exit_code: i32, usage: Usage) -> String {
        let step = StepEnd { ended_at: now(), exit_code, usage, ..self.0 };
        let line = serde_json::to_string(&step).unwrap_or_default();
        format!("{line}\n")
    }
}

/// Writes a line into the folder of the task that runs this process, or notes why that failed.
pub fn write(line: &str, session: &Session) {
    if let Err(error) = append(line) {
        note_missing(&error.to_string(), session);
    }
}

/// Notes that the step was not recorded, and why.
pub fn note_missing(why: &str, session: &Session) {
    session.screen.note(&format!("srun: sacct will not show this step: {why}"));
}

/// Appends a line to the file of the task that runs this process.
///
/// # Errors
/// The disk is full, or this process is in no task.
pub fn append(line: &str) -> io::Result<()> {
    let folder = variable("GPOOL_DIR").ok_or(io::ErrorKind::NotFound)?;
    let rank = variable("GPOOL_RANK").filter(|rank| rank != "0");
    let name = StepEnd::FILE;
    let name = rank.map_or_else(|| name.to_owned(), |rank| format!("{name}-{rank}"));
    let file = File::options().create(true).append(true).open(Path::new(&folder).join(name));
    // One call, so that lines of steps that end together do not mix.
    file?.write_all(line.as_bytes())
}

/// The usage of all children of this process that have ended.
pub fn usage_of_children() -> Usage {
    let used = gpool_sys::usage::of_children();
    Usage {
        cpu_user: Millis::new(used.user_ms),
        cpu_system: Millis::new(used.system_ms),
        memory_peak: Bytes::new(used.memory_peak),
        ..Usage::default()
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
