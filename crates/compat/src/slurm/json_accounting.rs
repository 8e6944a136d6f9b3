//! Jobs in the JSON of `sacct`.
//!
//! Source: `sacct --json` of Slurm 24.11, also for keys without a value.

use gpool_cli::render::clock::span;
use gpool_wire::{Job, Usage};
use serde_json::{Map, Value, json};

use super::cells::{self, CLUSTER, SlurmJobRow};
use super::json::{Parser, bounded, exit_code, number, seconds, text};
use super::json_job::{array_id, array_index, array_indexes};
use super::states::{reason, recorded};
use super::steps::{self, Step};
use super::times::{elapsed, limit};
use super::tres::{self, Resources};

/// Numbers of Slurm's trackable resources.
const TRES: [(&str, u64); 5] =
    [("cpu", 1), ("mem", 2), ("node", 4), ("billing", 5), ("gres/gpu", 1001)];

/// The number of a GPU model as a trackable resource.
const OF_MODEL: u64 = 1002;

/// A job with its steps.
#[must_use]
pub fn job(row: &SlurmJobRow<'_>, parser: Parser) -> Value {
    let mut all = Map::new();
    for part in [base(row), program(row), places(row, parser)] {
        if let Value::Object(part) = part {
            all.extend(part);
        }
    }
    Value::Object(all)
}

/// Names, numbers and amounts.
fn base(row: &SlurmJobRow<'_>) -> Value {
    let job = row.job;
    let running =
        json!({ "tasks": cells::throttle(row).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) });
    json!({
        "account": job.project,
        "allocation_nodes": Resources::allocated(job).map_or(0, |held| held.nodes),
        "array": {
            "job_id": array_id(job),
            "limits": { "max": { "running": running } },
            "task_id": number(array_index(row)),
            "task": array_indexes(job),
        },
        "association": {
            "account": job.project, "cluster": CLUSTER, "partition": "", "user": job.user, "id": 0,
        },
        "block": "",
        "cluster": CLUSTER,
        "comment": { "administrator": "", "job": text(cells::comment(row)), "system": "" },
        "constraints": text(cells::features(row)),
        "container": "",
        "flags": [],
        "group": text(cells::group(row)),
        "het": { "job_id": 0, "job_offset": number(None) },
        "hold": job.wait.held_by.is_some(),
        "job_id": cells::plain_id(job),
        "licenses": "",
        "mcs": { "label": "" },
        "name": job.name,
        "partition": text(cells::partition(row)),
        "priority": number(Some(u64::try_from(job.request.priority_number()).unwrap_or(0))),
        "qos": text(cells::qos(row)),
        "qosreq": "",
        "user": job.user,
        "wckey": { "wckey": "", "flags": [] },
    })
}

/// The program, its files and its end.
fn program(row: &SlurmJobRow<'_>) -> Value {
    let job = row.job;
    json!({
        "derived_exit_code": exit_code(Some(0), None),
        "exit_code": exit_code(job.run.exit_code.or(job.run.started_at.map(|_| 0)), job.run.signal),
        "extra": "",
        "failed_node": "",
        "kill_request_user": "",
        "reservation": { "id": 0, "name": "" },
        "restart_cnt": job.run.attempt.saturating_sub(1),
        "script": "",
        "stderr": text(cells::stderr(row)),
        "stderr_expanded": text(cells::stderr(row)),
        "stdin": text(cells::stdin(row)),
        "stdin_expanded": text(cells::stdin(row)),
        "stdout": text(cells::stdout(row)),
        "stdout_expanded": text(cells::stdout(row)),
        "submit_line": text(cells::submit_line(row)),
        "used_gres": "",
        "working_directory": text(cells::work_dir(row)),
    })
}

/// State, times and resources.
fn places(row: &SlurmJobRow<'_>, parser: Parser) -> Value {
    let job = row.job;
    let requested = Resources::requested(job);
    let per_node = requested.memory.map(|memory| (memory / requested.nodes.max(1)) >> 20);
    let held = Resources::allocated(job);
    let steps: Vec<Value> = Step::all(row).iter().map(|step| of_step(step, parser)).collect();
    json!({
        "nodes": match tres::nodes(job).is_empty() {
            true => json!("None assigned"),
            false => text(cells::nodes(row)),
        },
        "required": {
            "CPUs": requested.cpus,
            "memory_per_cpu": number(None),
            "memory_per_node": number(per_node),
        },
        "state": { "current": parser.states(&[recorded(job).1]), "reason": reason(job) },
        "steps": steps,
        "time": times(row),
        "tres": {
            "allocated": held.map(|held| amounts(&held)).unwrap_or_default(),
            "requested": amounts(&requested),
        },
    })
}

fn times(row: &SlurmJobRow<'_>) -> Value {
    let job = row.job;
    let waited = span(job.wait.waited_s).get() / 1000;
    json!({
        "elapsed": elapsed(job, row.now).unwrap_or(0),
        "eligible": seconds(cells::eligible_at(job)),
        "end": seconds(job.run.ended_at),
        "limit": bounded(limit(job).map(|seconds| seconds / 60)),
        "planned": number(Some(waited)),
        "start": seconds(job.run.started_at),
        "submission": seconds(Some(job.submitted_at)),
        "suspended": 0,
        "system": cpu(job, |usage| usage.cpu_system_s),
        "total": cpu(job, |usage| usage.cpu_user_s + usage.cpu_system_s),
        "user": cpu(job, |usage| usage.cpu_user_s),
    })
}

/// CPU time.
fn cpu(job: &Job, of: fn(Usage) -> f64) -> Value {
    let millis = job.usage.total.map_or(0, |usage| span(of(usage)).get());
    json!({ "seconds": millis / 1000, "microseconds": millis % 1000 * 1000 })
}

fn of_step(step: &Step<'_>, parser: Parser) -> Value {
    let (row, job) = (step.row(), &*step.job);
    let node = text(steps::nodes(step));
    let names = steps::node_names(step);
    let memory = job.usage.total.map_or(0, |usage| usage.memory_peak);
    let used = json!([{ "type": "mem", "name": "", "id": 2, "count": memory, "task": 0,
                        "node": node }]);
    json!({
        "exit_code": exit_code(job.run.exit_code.or(Some(0)), job.run.signal),
        "kill_request_user": "",
        "nodes": { "count": names.len(), "range": node, "list": names },
        "pid": "",
        "state": parser.states(&[recorded(job).1]),
        "statistics": {
            "CPU": { "actual_frequency": 0 },
            "energy": { "consumed": number(Some(0)) },
        },
        "step": { "id": text(steps::id_raw(step)), "name": text(steps::name(step)) },
        "task": { "distribution": "Unknown" },
        "tasks": { "count": step.n_tasks() },
        "time": {
            "elapsed": elapsed(job, row.now).unwrap_or(0),
            "end": number(Some(seconds(job.run.ended_at))),
            "start": number(Some(seconds(job.run.started_at))),
            "suspended": 0,
            "system": cpu(job, |usage| usage.cpu_system_s),
            "total": cpu(job, |usage| usage.cpu_user_s + usage.cpu_system_s),
            "user": cpu(job, |usage| usage.cpu_user_s),
        },
        "tres": {
            "requested": { "max": used, "min": used, "average": used, "total": used },
            "consumed": { "max": [], "min": [], "average": [], "total": [] },
            "allocated": amounts(&step.resources()),
        },
    })
}

/// Resources as trackable resources; memory is in MiB.
fn amounts(of: &Resources) -> Vec<Value> {
    let one = |(name, amount): (String, u64)| {
        let id = TRES.iter().find(|(known, _)| *known == name).map_or(OF_MODEL, |(_, id)| *id);
        let count = if name == "mem" { amount >> 20 } else { amount };
        let (kind, name) = name.split_once('/').unwrap_or((&name, ""));
        json!({ "type": kind, "name": name, "id": id, "count": count })
    };
    of.amounts().into_iter().map(one).collect()
}
