//! The record of a job in `scontrol show job`.
//!
//! Source: its output in Slurm 24.11, also for keys without a value.

use std::collections::BTreeMap;

use gpool_wire::{Gpu, Job, PlacedOn};

use super::cells::{self, Cell, SlurmJobRow, none};
use super::hostlist;
use super::record::ScontrolRecord;
use super::tres::{self, Resources, gres, gres_type};

/// A pair of a line: key, content, and the text for no value.
struct Pair(&'static str, Cell, &'static str);

const NULL: &str = "(null)";

/// The lines before the GPUs of each node.
static LINES: &[&[Pair]] = &[
    &[
        Pair("UserId", cells::user_with_uid, ""),
        Pair("GroupId", cells::group_with_gid, ""),
        Pair("MCS_label", none, "N/A"),
    ],
    &[
        Pair("Priority", cells::priority, ""),
        Pair("Nice", cells::nice, ""),
        Pair("Account", cells::account, NULL),
        Pair("QOS", cells::qos, NULL),
    ],
    &[
        Pair("JobState", cells::state_long, ""),
        Pair("Reason", cells::why, ""),
        Pair("Dependency", cells::dependency, NULL),
    ],
    &[
        Pair("Requeue", cells::requeue, ""),
        Pair("Restarts", cells::restarts, ""),
        Pair("BatchFlag", cells::batch_flag, ""),
        Pair("Reboot", none, "0"),
        Pair("ExitCode", cells::exit_code, ""),
    ],
    &[Pair("DerivedExitCode", none, "0:0")],
    &[
        Pair("RunTime", cells::run_time, ""),
        Pair("TimeLimit", cells::limit_long, "UNLIMITED"),
        Pair("TimeMin", none, "N/A"),
    ],
    &[Pair("SubmitTime", cells::submit, ""), Pair("EligibleTime", cells::eligible, "Unknown")],
    &[Pair("AccrueTime", cells::eligible, "Unknown")],
    &[
        Pair("StartTime", cells::start_expected, "Unknown"),
        Pair("EndTime", cells::end_latest, "Unknown"),
        Pair("Deadline", cells::deadline, "N/A"),
    ],
    &[
        Pair("SuspendTime", cells::suspended_since, "None"),
        Pair("SecsPreSuspend", none, "0"),
        Pair("LastSchedEval", cells::eligible, "Unknown"),
        Pair("Scheduler", none, "Main"),
    ],
    &[Pair("Partition", cells::partition, ""), Pair("AllocNode:Sid", none, "(null):0")],
    &[
        Pair("ReqNodeList", cells::requested_nodes, NULL),
        Pair("ExcNodeList", cells::excluded_nodes, NULL),
    ],
    &[Pair("NodeList", cells::nodes, "")],
    &[Pair("BatchHost", cells::batch_host, LEFT_OUT)],
    &[
        Pair("NumNodes", cells::n_nodes, ""),
        Pair("NumCPUs", cells::cpus, ""),
        Pair("NumTasks", cells::n_tasks, ""),
        Pair("CPUs/Task", cells::cpus_per_task, ""),
        Pair("ReqB:S:C:T", none, "0:0:*:*"),
    ],
    &[Pair("ReqTRES", cells::requested, "")],
    &[Pair("AllocTRES", cells::allocated, NULL)],
    &[
        Pair("Socks/Node", none, "*"),
        Pair("NtasksPerN:B:S:C", tasks_per_node, ""),
        Pair("CoreSpec", none, "*"),
    ],
];

/// The lines after the GPUs of each node.
static LAST_LINES: &[&[Pair]] = &[
    &[
        Pair("MinCPUsNode", cells::min_cpus, ""),
        Pair("MinMemoryNode", cells::min_memory, "0"),
        Pair("MinTmpDiskNode", none, "0"),
    ],
    &[Pair("Features", cells::features, NULL), Pair("DelayBoot", none, "00:00:00")],
    &[
        Pair("OverSubscribe", cells::oversubscribe, ""),
        Pair("Contiguous", none, "0"),
        Pair("Licenses", none, NULL),
        Pair("Network", none, NULL),
    ],
    &[Pair("Command", cells::command, NULL)],
    &[Pair("WorkDir", cells::work_dir, NULL)],
    &[Pair("Comment", cells::comment, LEFT_OUT)],
    &[Pair("StdErr", cells::stderr, NULL)],
    &[Pair("StdIn", cells::stdin, "")],
    &[Pair("StdOut", cells::stdout, NULL)],
    &[Pair("TresPerNode", cells::gpus_per_node, LEFT_OUT)],
];

/// Marks a line that is left out without a value.
const LEFT_OUT: &str = "\0";

fn tasks_per_node(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(format!("{}:0:*:*", cells::n_tasks_per_node(row)?))
}

/// The record of a job. With the devices of all nodes, it has the GPUs of each node.
#[must_use]
pub fn of_job(row: &SlurmJobRow<'_>, details: Option<&[Gpu]>) -> ScontrolRecord {
    let mut record = ScontrolRecord::default();
    let job = row.job;
    let mut first = vec![("JobId", cells::id_raw(row).unwrap_or_default())];
    if let Some((number, _)) = job.id.split_once('.') {
        let index = cells::array_index(row).unwrap_or_default();
        first.extend([("ArrayJobId", number.to_owned()), ("ArrayTaskId", index)]);
        first.extend(cells::throttle(row).map(|most| ("ArrayTaskThrottle", most)));
    }
    first.push(("JobName", job.name.clone()));
    record.line(&first);
    add(&mut record, LINES, row);
    if let Some(gpus) = details {
        add_gpus(&mut record, job, gpus);
    }
    add(&mut record, LAST_LINES, row);
    record
}

fn add(record: &mut ScontrolRecord, lines: &[&[Pair]], row: &SlurmJobRow<'_>) {
    for line in lines {
        let texts = line.iter().map(|Pair(key, cell, absent)| {
            (*key, cell(row).unwrap_or_else(|| (*absent).to_owned()))
        });
        let texts: Vec<(&str, String)> = texts.collect();
        if texts.iter().all(|(_, text)| text != LEFT_OUT) {
            record.line(&texts);
        }
    }
}

/// The GPUs of the job by model, and the resources of each node. Nodes that are alike share a
/// line.
fn add_gpus(record: &mut ScontrolRecord, job: &Job, gpus: &[Gpu]) {
    if job.state.is_end() || job.placement.is_empty() {
        return;
    }
    let all: Vec<&PlacedOn> = job.placement.iter().collect();
    let by_model = by_model(&all, gpus);
    if !by_model.is_empty() {
        let texts = by_model.iter().map(|(model, at)| format!("gpu{model}:{}", at.len()));
        record.line(&[("JOB_GRES", texts.collect::<Vec<_>>().join(","))]);
    }
    let mut lines: Vec<([String; 3], Vec<&str>)> = Vec::new();
    for node in tres::nodes(job) {
        let placed: Vec<&PlacedOn> = job.placement.iter().filter(|it| it.node == node).collect();
        let held = Resources::of_placed(job, &placed).unwrap_or_default();
        let texts = self::by_model(&placed, gpus)
            .iter()
            .map(|(model, at)| gres(&format!("gpu{model}"), at))
            .collect::<Vec<_>>();
        let cpus = match held.cpus {
            0 | 1 => "0".to_owned(),
            n => format!("0-{}", n - 1),
        };
        let memory = (held.memory.unwrap_or(0) >> 20).to_string();
        let of = [cpus, memory, texts.join(",")];
        match lines.iter_mut().find(|(other, _)| *other == of) {
            Some((_, nodes)) => nodes.push(node),
            None => lines.push((of, vec![node])),
        }
    }
    for ([cpus, memory, gres], nodes) in lines {
        record.line(&[
            ("  Nodes", hostlist::compressed(&nodes)),
            ("CPU_IDs", cpus),
            ("Mem", memory),
            ("GRES", gres),
        ]);
    }
}

/// The indexes of placed devices by model, as `:h100_80g`.
fn by_model(placed: &[&PlacedOn], gpus: &[Gpu]) -> BTreeMap<String, Vec<u32>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for placed in placed {
        for (index, uuid) in placed.devices.iter().zip(&placed.uuids) {
            let gpu = gpus.iter().find(|gpu| gpu.uuid == *uuid);
            let model = gpu.map(|gpu| format!(":{}", gres_type(&gpu.model_short)));
            found.entry(model.unwrap_or_default()).or_default().push(*index);
        }
    }
    found
}
