//! What a run of the real program left behind, as plain data: what clients were told, what the
//! store holds, what the jobs wrote themselves. Judges nothing; that is the checker's work.

use std::collections::BTreeMap;
use std::path::Path;

use gpool_agent::layout;
use gpool_model::agent::{Report, TaskIs, TaskReport};
use gpool_model::event::{Event, Journaled};
use gpool_model::record::EndedJob;
use gpool_model::{Phase, Seq};
use gpool_store::{ArchiveFilter, Reader};

/// How a job has to end if nobody kills its shepherd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// By itself, with one of these codes.
    Exit(Vec<i32>),
    /// Somebody was told that it is cancelled, and it would not end by itself.
    Cancelled,
    /// It was cancelled and might have ended before that.
    CancelledOr(i32),
    /// Its time limit ends it.
    TimedOut,
    /// If that job succeeds it runs to that code, otherwise never.
    After(u64, i32),
}

/// What a job may have suffered whose shepherd was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Before it had claimed the job, or before the program was there.
    NotStarted,
    /// In between.
    Lost,
    /// After it had written down how the job ended: nothing is lost.
    Kept,
    /// At a moment that nobody knows.
    Any,
}

/// A job whose submitter was told its number.
#[derive(Debug, Clone)]
pub struct Asked {
    pub id: u64,
    pub name: String,
    pub want: Want,
    pub n_gpus: usize,
    /// Nothing but age decides when it starts among those of its kind.
    pub in_order: bool,
    /// Somebody is to be told of its end.
    pub is_told: bool,
}

/// A job whose time limit was made longer while it ran.
#[derive(Debug, Clone)]
pub struct Extended {
    pub id: u64,
    /// Milliseconds at first.
    pub before: u64,
    /// Milliseconds that were added each time.
    pub by: u64,
    /// How often it was said that it is longer now.
    pub n_told: u64,
    /// How often that was asked for.
    pub n_tried: u64,
}

/// A message about a job's end, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The message's own, the same each time that it is sent.
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
    /// The cause with all that is said of it.
    pub why: String,
    pub exit: Option<i32>,
    pub attempt: u32,
    pub started_ms: Option<u64>,
    pub ended_ms: u64,
    pub limit_ms: Option<u64>,
    pub devices: Vec<String>,
}

/// What the journal says about who holds devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noted {
    /// A plan gave a job these devices.
    Start { id: u64, attempt: u32, node: String, devices: Vec<String> },
    /// Its agent said that it is over, or that it was not launched.
    Over { id: u64 },
    /// The agent of a node said all that it has.
    Has { node: String, ids: Vec<u64> },
}

/// What a job's program wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Its start: process id, hundredths of a second since boot, devices that it was given.
    Start { id: u64, attempt: u32, pid: u32, at: u64, devices: Vec<String> },
    /// Its end, with the code that it exits with.
    End { id: u64, attempt: u32, at: u64, code: i32 },
    /// Somebody else held a device that it was given.
    Shared { id: u64, device: String },
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub asked: Vec<Asked>,
    pub extended: Vec<Extended>,
    pub told: Vec<Told>,
    pub killed: BTreeMap<u64, Fate>,
    pub ended: Vec<Ended>,
    /// Jobs that the store believes to be alive.
    pub living: Vec<u64>,
    pub journal: Vec<Noted>,
    pub trace: Vec<Line>,
    /// What each job wrote to its standard output.
    pub outputs: BTreeMap<u64, String>,
    /// The time limits that each job's shepherd has noted: of which order, and milliseconds.
    pub limits: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Processes, control groups and files that should not be there any more.
    pub left: Vec<String>,
    /// What `gpool verify` says if it is not content.
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
                let entry: Journaled = serde_json::from_slice(&entry.body).unwrap();
                self.journal.extend(noted(&entry));
            }
        }
        let all = ArchiveFilter { limit: u32::MAX, ..ArchiveFilter::default() };
        let rows = reader.archive(&all).unwrap();
        self.ended = rows.iter().map(|row| ended(&row.body, &row.state)).collect();
    }

    /// Reads what the shepherds of jobs that were made longer have noted.
    pub fn read_claims(&mut self, state: &Path) {
        for id in self.extended.iter().map(|it| it.id) {
            let text = read_of_node(state, &format!("jobs/{id}/1.claim"));
            let lines = text.lines().filter_map(|line| line.split_once(' '));
            let noted = lines.filter_map(|(_, line)| {
                let line: serde_json::Value = serde_json::from_str(line).ok()?;
                let is_limit = line["line"] == "limited";
                is_limit.then(|| (line["generation"].as_u64(), line["limit"].as_u64()))
            });
            let noted = noted.map(|(generation, limit)| (generation.unwrap(), limit.unwrap()));
            self.limits.insert(id, noted.collect());
        }
    }

    /// Reads what programs wrote.
    pub fn read_trace(&mut self, text: &str) {
        let parsed = text.lines().map(|line| {
            parse(line).unwrap_or_else(|| panic!("no line that a job writes: {line:?}"))
        });
        self.trace = parsed.collect();
    }
}

/// A file of a run, wherever the node lies that it ran on; empty if there is none.
pub fn read_of_node(state: &Path, file: &str) -> String {
    let mut folders = layout::folders(state).into_iter();
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
        cause: cause.get("is").and_then(|is| is.as_str()).map(str::to_owned),
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
