//! `sstat`: the usage of running jobs.
//!
//! Source of the fields: `sstat --helpformat` of Slurm 24.11, and its output for fields without a
//! value.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, Spoken, row};
use gpool_cli::render::clock::span;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::Job;
use gpool_wire::live_usage::LiveUsage;

use super::cells::SlurmJobRow;
use super::select;
use super::steps::{self, Step};
use super::table::{Field, help_format, picked, text};
use super::times::long_time;
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("allsteps", 'a', Nothing, Covered, "a running job has one step with all its usage"),
    row("format", 'o', Value, Covered, "all fields of Slurm, NAME%WIDTH").also(&["fields"]),
    row("helpformat", 'e', Nothing, Covered, "lists the fields"),
    row("jobs", 'j', Value, Covered, "7, 7_4, 7.batch"),
    row("json", '\0', Nothing, Instead, "gpool show JOB --json, with the keys of gpool"),
    row("noconvert", '\0', Nothing, Ignored, "memory is in K"),
    row("noheader", 'n', Nothing, Covered, "no heads"),
    row("parsable", 'p', Nothing, Covered, "| after each field"),
    row("parsable2", 'P', Nothing, Covered, "| between fields"),
    row("pidformat", 'i', Nothing, Covered, "JobID,Nodelist,Pids"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "sstat", about: "Show the usage of running jobs", flags: &[FLAGS], words: "ID" };

const USUAL: &str = "JobID,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,\
                     MaxRSSTask,AveRSS,MaxPages,MaxPagesNode,MaxPagesTask,AvePages,MinCPU,\
                     MinCPUNode,MinCPUTask,AveCPU,NTasks,AveCPUFreq,ReqCPUFreqMin,ReqCPUFreqMax,\
                     ReqCPUFreqGov,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,\
                     AveDiskRead,MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,\
                     TRESUsageInAve,TRESUsageInMax,TRESUsageInMaxNode,TRESUsageInMaxTask,\
                     TRESUsageInMin,TRESUsageInMinNode,TRESUsageInMinTask,TRESUsageInTot,\
                     TRESUsageOutAve,TRESUsageOutMax,TRESUsageOutMaxNode,TRESUsageOutMaxTask,\
                     TRESUsageOutMin,TRESUsageOutMinNode,TRESUsageOutMinTask,TRESUsageOutTot";
const PIDS: &str = "JobID,Nodelist,Pids";

type Cell = fn(&Step<'_>) -> Option<String>;

static FIELDS: &[Field<Cell>] = &[
    ("AveCPU", 10, false, average_cpu),
    ("AveCPUFreq", 10, false, zero),
    ("AveDiskRead", 12, false, read_bytes),
    ("AveDiskWrite", 12, false, written_bytes),
    ("AvePages", 10, false, zero),
    ("AveRSS", 10, false, memory),
    ("AveVMSize", 10, false, nothing),
    ("ConsumedEnergy", 14, false, zero),
    ("ConsumedEnergyRaw", 17, false, zero),
    ("JobID", 12, true, id),
    ("MaxDiskRead", 12, false, read_bytes),
    ("MaxDiskReadNode", 15, false, node),
    ("MaxDiskReadTask", 15, false, task),
    ("MaxDiskWrite", 12, false, written_bytes),
    ("MaxDiskWriteNode", 16, false, node),
    ("MaxDiskWriteTask", 16, false, task),
    ("MaxPages", 8, false, zero),
    ("MaxPagesNode", 12, false, nothing),
    ("MaxPagesTask", 14, false, nothing),
    ("MaxRSS", 10, false, memory),
    ("MaxRSSNode", 10, false, node),
    ("MaxRSSTask", 10, false, task),
    ("MaxVMSize", 10, false, nothing),
    ("MaxVMSizeNode", 14, false, nothing),
    ("MaxVMSizeTask", 14, false, nothing),
    ("MinCPU", 10, false, average_cpu),
    ("MinCPUNode", 10, false, node),
    ("MinCPUTask", 10, false, task),
    ("Nodelist", 20, false, nodes),
    ("NTasks", 8, false, n_tasks),
    ("Pids", 20, false, nothing),
    ("ReqCPUFreq", 10, false, zero),
    ("ReqCPUFreqMin", 13, false, zero),
    ("ReqCPUFreqMax", 13, false, zero),
    ("ReqCPUFreqGov", 13, false, zero),
    ("TRESUsageInAve", 14, false, usage),
    ("TRESUsageInMax", 14, false, usage),
    ("TRESUsageInMaxNode", 18, false, nothing),
    ("TRESUsageInMaxTask", 18, false, nothing),
    ("TRESUsageInMin", 14, false, usage),
    ("TRESUsageInMinNode", 18, false, nothing),
    ("TRESUsageInMinTask", 18, false, nothing),
    ("TRESUsageInTot", 14, false, usage),
    ("TRESUsageOutAve", 15, false, nothing),
    ("TRESUsageOutMax", 15, false, nothing),
    ("TRESUsageOutMaxNode", 19, false, nothing),
    ("TRESUsageOutMaxTask", 19, false, nothing),
    ("TRESUsageOutMin", 15, false, nothing),
    ("TRESUsageOutMinNode", 19, false, nothing),
    ("TRESUsageOutMinTask", 19, false, nothing),
    ("TRESUsageOutTot", 15, false, nothing),
];

/// Runs the command.
///
/// # Errors
/// No job is named, one does not run, or the server can't be asked.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if args.has("helpformat") {
        return print(&help_format(FIELDS), session);
    }
    say_ignored(&args, session);
    let usual = if args.has("pidformat") { PIDS } else { USUAL };
    let format = args.value("format").unwrap_or(usual);
    let picked =
        picked("sstat", format, FIELDS).map_err(|failure| failure.tip("sstat --helpformat"))?;
    let named = args.value("jobs").map(str::to_owned).into_iter().chain(args.words.iter().cloned());
    let ids = select::ids(named)?;
    if ids.is_empty() {
        return Err(Failure::new(errors::USAGE, "sstat: which job?").tip("sstat -j 17"));
    }
    let client = session.client()?;
    let mut jobs: Vec<Job> = Vec::new();
    for id in ids {
        let job = client.job(&id)?;
        if job.run.started_at.is_none() || job.run.ended_at.is_some() {
            session.screen.note(&format!("sstat: error: No steps running for job {id}"));
            continue;
        }
        jobs.push(job);
    }
    let steps: Vec<Step<'_>> =
        jobs.iter().filter_map(|job| Step::of(SlurmJobRow::of(job, session))).collect();
    let cell = |of: Cell, step: &Step<'_>| safe(&of(step).unwrap_or_default()).into_owned();
    session.screen.data(&text(&args, &picked, &steps, cell))?;
    Ok(if steps.is_empty() { Exit(1) } else { Exit::OK })
}

fn live(step: &Step<'_>) -> Option<LiveUsage> {
    step.job.usage.live
}

fn nothing(_: &Step<'_>) -> Option<String> {
    None
}

fn zero(_: &Step<'_>) -> Option<String> {
    Some("0".to_owned())
}

fn id(step: &Step<'_>) -> Option<String> {
    steps::id(step)
}

fn nodes(step: &Step<'_>) -> Option<String> {
    steps::nodes(step)
}

fn n_tasks(step: &Step<'_>) -> Option<String> {
    steps::n_tasks(step)
}

fn node(step: &Step<'_>) -> Option<String> {
    live(step).and_then(|_| steps::nodes(step))
}

fn task(step: &Step<'_>) -> Option<String> {
    live(step).map(|_| "0".to_owned())
}

fn average_cpu(step: &Step<'_>) -> Option<String> {
    Some(long_time(span(live(step)?.cpu_s?).get() / 1000))
}

fn memory(step: &Step<'_>) -> Option<String> {
    Some(format!("{}K", live(step)?.memory_peak? >> 10))
}

fn read_bytes(step: &Step<'_>) -> Option<String> {
    Some(live(step)?.read_bytes?.to_string())
}

fn written_bytes(step: &Step<'_>) -> Option<String> {
    Some(live(step)?.written_bytes?.to_string())
}

fn usage(step: &Step<'_>) -> Option<String> {
    let parts = [
        average_cpu(step).map(|time| format!("cpu={time}")),
        read_bytes(step).map(|bytes| format!("fs/disk={bytes}")),
        memory(step).map(|memory| format!("mem={memory}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(","))
}
