//! The history of a run of the real program, as plain data: the answers to clients, the contents of
//! the store, and the output of the jobs. It checks nothing; the checker does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpool_model::agent::{Report, TaskIs, TaskReport};
use gpool_model::event::{Event, Journaled};
use gpool_model::record::EndedJob;
use gpool_model::{Phase, Seq};
use gpool_shepherd::layout;
use gpool_store::{ArchiveFilter, Reader};

/// How a job must end if its shepherd is not killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// By itself, with one of these codes.
    Exit(Vec<i32>),
    /// The cancel was acknowledged, and the job would not end by itself.
    Cancelled,
    /// It was cancelled, or ended before that.
    CancelledOr(i32),
    /// By its time limit.
    TimedOut,
    /// If that job succeeds, it runs and ends with that code; otherwise it never runs.
    After(u64, i32),
}

/// The possible effects on a job whose shepherd was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Killed before it had claimed the job, or before the program ran.
    NotStarted,
    /// Killed in between.
    Lost,
    /// Killed after it had noted how the job ended: nothing is lost.
    Kept,
    /// Killed at an unknown moment.
    Any,
}

/// A job with an acknowledged ID.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: u64,
    pub name: String,
    pub want: Want,
    pub n_gpus: usize,
    /// Only age decides its start among similar jobs.
    pub in_order: bool,
    /// Its end is notified.
    pub is_told: bool,
}

/// A job with a time limit that was extended while it ran.
#[derive(Debug, Clone)]
pub struct Extended {
    pub id: u64,
    /// The first limit in milliseconds.
    pub before: u64,
    /// Milliseconds of each extension.
    pub by: u64,
    /// The number of acknowledged extensions.
    pub n_told: u64,
    /// The number of requested extensions.
    pub n_tried: u64,
}

/// A received message about a job's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The message's ID, the same for each delivery.
    pub message: String,
    pub job: u64,
}

/// An ended job of the archive.
#[derive(Debug, Clone)]
pub struct Ended {
    pub id: u64,
    pub name: String,
    pub user: String,
    pub state: String,
    pub cause: Option<String>,
    /// The cause with its details.
    pub why: String,
    pub exit: Option<i32>,
    pub attempt: u32,
    pub started_ms: Option<u64>,
    pub ended_ms: u64,
    pub limit_ms: Option<u64>,
    pub devices: Vec<String>,
}

/// An entry of the journal about the holders of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// A plan allocated these devices to a job.
    Start { id: u64, attempt: u32, node: String, devices: Vec<String> },
    /// The agent reported that the job has ended, or was not launched.
    Over { id: u64 },
    /// The agent of a node reported all its jobs.
    Has { node: String, ids: Vec<u64> },
}

/// A line that a job's program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Its start: process ID, hundredths of a second since boot, and devices.
    Start { id: u64, attempt: u32, pid: u32, at: u64, devices: Vec<String> },
    /// Its end with its exit code.
    End { id: u64, attempt: u32, at: u64, code: i32 },
    /// Another job held one of its devices.
    Shared { id: u64, device: String },
}

/// The whole history.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub asked: Vec<Asked>,
    pub extended: Vec<Extended>,
    pub told: Vec<Told>,
    pub killed: BTreeMap<u64, Fate>,
    pub ended: Vec<Ended>,
    /// Jobs that live according to the store.
    pub living: Vec<u64>,
    pub journal: Vec<Noted>,
    pub trace: Vec<Line>,
    /// The standard output of each job.
    pub outputs: BTreeMap<u64, String>,
    /// The time limits that each job's shepherd has noted: generation and milliseconds.
    pub limits: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Processes, control groups and files that should be gone.
    pub left: Vec<String>,
    /// The output of `gpool verify` if it finds a fault.
    pub unsound: Option<String>,
}

impl History {
    /// Reads the store of a server that has stopped.
    pub fn read_store(&mut self, state: &Path) {
        let reader = Reader::open(state).unwrap();
        let living = reader.load().unwrap().records.into_iter().filter(|row| row.kind == "job");
        self.living = living.map(|row| row.key.parse().unwrap()).collect();
        let mut next = Seq(1);
        loop {
            let page = reader.journal(next, 1000).unwrap();
            let Some(last) = page.last() else { break };
            next = Seq(last.seq.0 + 1);
            for entry in &page {
                let entry = gpool_journal::codec::journaled(&entry.body).unwrap();
                self.journal.extend(noted(&entry));
            }
        }
        let all = ArchiveFilter { limit: u32::MAX, ..ArchiveFilter::default() };
        let rows = reader.archive(&all).unwrap();
        self.ended = rows.iter().map(|row| ended(&row.body, &row.state)).collect();
    }

    /// Reads the claims of jobs with extended limits.
    pub fn read_claims(&mut self, agents: &[PathBuf]) {
        for id in self.extended.iter().map(|it| it.id) {
            let text = read_of_node(agents, &format!("jobs/{id}/1.claim"));
            let lines = text.lines().filter_map(|line| line.split_once(' '));
            let noted = lines.filter_map(|(_, line)| {
                let line: serde_json::Value = serde_json::from_str(line).ok()?;
                let limited = line.get("limited")?;
                Some((limited["generation"].as_u64(), limited["limit"].as_u64()))
            });
            let noted = noted.map(|(generation, limit)| (generation.unwrap(), limit.unwrap()));
            self.limits.insert(id, noted.collect());
        }
    }

    /// Reads the lines of the programs.
    pub fn read_trace(&mut self, text: &str) {
        let parsed = text
            .lines()
            .map(|line| parse(line).unwrap_or_else(|| panic!("not a line of a job: {line:?}")));
        self.trace = parsed.collect();
    }
}

/// A file of a run on any node; empty if there is none.
pub fn read_of_node(agents: &[PathBuf], file: &str) -> String {
    let mut folders = agents.iter().flat_map(|state| layout::folders(state));
    folders.find_map(|node| std::fs::read_to_string(node.join(file)).ok()).unwrap_or_default()
}

fn noted(entry: &Journaled) -> Vec<Noted> {
    let over = |report: &TaskReport| {
        let is_over = matches!(report.is, TaskIs::Ended(_) | TaskIs::Refused { .. });
        is_over.then_some(Noted::Over { id: report.task.job.number.0 })
    };
    match entry {
        Journaled::Planned { decisions, .. } => decisions.iter().filter_map(start).collect(),
        Journaled::Event(Event::Reported { report: Report::Task(report), .. }) => {
            over(report).into_iter().collect()
        }
        Journaled::Event(Event::Reported { node, report: Report::Tasks { tasks, .. } }) => {
            let mut noted: Vec<_> = tasks.iter().filter_map(over).collect();
            let ids = tasks.iter().map(|task| task.task.job.number.0).collect();
            noted.push(Noted::Has { node: node.to_string(), ids });
            noted
        }
        Journaled::Event(_) | Journaled::Kept { .. } => Vec::new(),
    }
}

fn start(decision: &gpool_model::plan::Decision) -> Option<Noted> {
    let gpool_model::plan::Decision::Start { job, attempt, placements, .. } = decision else {
        return None;
    };
    let slots = placements.iter().flat_map(|placement| &placement.slots);
    let devices = slots.map(|slot| slot.device.to_string()).collect();
    let node = placements.first().map(|placement| placement.node.to_string()).unwrap_or_default();
    Some(Noted::Start { id: job.number.0, attempt: attempt.0, node, devices })
}

fn ended(body: &[u8], state: &str) -> Ended {
    let EndedJob { spec, job } = serde_json::from_slice(body).unwrap();
    let Phase::Ended(end) = &job.phase else { panic!("in the archive and not ended: {job:?}") };
    let slots = end.allocations.iter().flat_map(|allocation| &allocation.slots);
    let cause = serde_json::to_value(&end.cause).unwrap();
    Ended {
        id: job.id.number.0,
        name: spec.name.to_string(),
        user: spec.owner.user.to_string(),
        state: state.to_owned(),
        // A cause with details is an object with one key.
        cause: match &cause {
            serde_json::Value::Object(details) => details.keys().next().cloned(),
            cause => cause.as_str().map(str::to_owned),
        },
        why: cause.to_string(),
        exit: end.exit.map(gpool_model::job::ExitStatus::shell_code),
        attempt: job.attempt.0,
        started_ms: end.started_at.map(gpool_model::Timestamp::get),
        ended_ms: end.ended_at.get(),
        limit_ms: spec.time_limit.map(gpool_model::Millis::get),
        devices: slots.map(|slot| slot.device.to_string()).collect(),
    }
}

fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let hundredths = |word: &str| word.replace('.', "").parse().ok();
    Some(match words[..] {
        ["s", id, attempt, pid, at, devices] => Line::Start {
            id: id.parse().ok()?,
            attempt: attempt.parse().ok()?,
            pid: pid.parse().ok()?,
            at: hundredths(at)?,
            devices: devices.split(',').filter(|it| *it != "-").map(str::to_owned).collect(),
        },
        ["e", id, attempt, at, code] => Line::End {
            id: id.parse().ok()?,
            attempt: attempt.parse().ok()?,
            at: hundredths(at)?,
            code: code.parse().ok()?,
        },
        ["x", id, device] => Line::Shared { id: id.parse().ok()?, device: device.to_owned() },
        _ => return None,
    })
}
