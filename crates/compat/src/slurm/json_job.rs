//! Jobs in the JSON of `squeue` and `scontrol show job`.

use gpool_wire::{Job, PlacedOn};
use serde_json::{Value, json};

use super::cells::{self, Cell, SlurmJobRow};
use super::json::{Parser, bounded, exit_code, fixed, number, text, time};
use super::states::{reason, state};
use super::times::{latest_end, likely_start, limit};
use super::tres::{self, Resources};

enum JsonContent {
    Text(Cell),
    Own(fn(&SlurmJobRow<'_>, Parser) -> Value),
    Fixed(&'static str),
}

use JsonContent::{Fixed, Own, Text};

const UNSET: &str = r#"{"set": false, "infinite": false, "number": 0}"#;
const ZERO: &str = r#"{"set": true, "infinite": false, "number": 0}"#;
const ENDLESS: &str = r#"{"set": false, "infinite": true, "number": 0}"#;
const EMPTY: &str = "\"\"";

/// The keys.
///
/// Source: `squeue --json` of Slurm 24.11, also for keys without a value.
static KEYS: &[(&str, JsonContent)] = &[
    ("account", Text(cells::account)),
    ("accrue_time", Own(|row, _| time(cells::eligible_at(row.job)))),
    ("admin_comment", Fixed(EMPTY)),
    ("allocating_node", Fixed(EMPTY)),
    ("array_job_id", Own(|row, _| number(Some(array_id(row.job))))),
    ("array_task_id", Own(|row, _| number(array_index(row)))),
    ("array_max_tasks", Own(|row, _| number(cells::throttle(row).and_then(|n| n.parse().ok())))),
    ("array_task_string", Own(|row, _| json!(array_indexes(row.job)))),
    ("association_id", Fixed("0")),
    ("batch_features", Fixed(EMPTY)),
    ("batch_flag", Own(|row, _| json!(row.job.request.script.is_some()))),
    ("batch_host", Text(cells::batch_host)),
    ("billable_tres", Own(|row, _| number(Some(Resources::of(row.job).cpus)))),
    ("burst_buffer", Fixed(EMPTY)),
    ("burst_buffer_state", Fixed(EMPTY)),
    ("cluster", Text(cells::cluster)),
    ("cluster_features", Fixed(EMPTY)),
    ("command", Text(cells::command)),
    ("comment", Text(cells::comment)),
    ("container", Fixed(EMPTY)),
    ("container_id", Fixed(EMPTY)),
    ("contiguous", Fixed("false")),
    ("core_spec", Fixed("0")),
    ("cores_per_socket", Fixed(UNSET)),
    ("cpu_frequency_governor", Fixed(UNSET)),
    ("cpu_frequency_maximum", Fixed(UNSET)),
    ("cpu_frequency_minimum", Fixed(UNSET)),
    ("cpus", Own(|row, _| number(Some(Resources::of(row.job).cpus)))),
    ("cpus_per_task", Own(|row, _| number(Some(tres::cpus_per_task(row.job))))),
    ("cpus_per_tres", Fixed(EMPTY)),
    ("cron", Fixed(EMPTY)),
    ("current_working_directory", Text(cells::work_dir)),
    ("deadline", Own(|row, _| time(row.job.request.deadline))),
    ("delay_boot", Fixed(ZERO)),
    ("dependency", Text(cells::dependency)),
    ("derived_exit_code", Own(|_, _| exit_code(Some(0), None))),
    ("eligible_time", Own(|row, _| time(cells::eligible_at(row.job)))),
    ("end_time", Own(|row, _| time(row.job.run.ended_at.or_else(|| latest_end(row.job))))),
    ("excluded_nodes", Text(cells::excluded_nodes)),
    (
        "exclusive",
        Own(|row, _| if row.job.request.exclusive { json!(["true"]) } else { json!([]) }),
    ),
    ("exit_code", Own(|row, _| exit_code(row.job.run.exit_code.or(Some(0)), row.job.run.signal))),
    ("extra", Fixed(EMPTY)),
    ("failed_node", Fixed(EMPTY)),
    ("features", Text(cells::features)),
    ("federation_origin", Fixed(EMPTY)),
    ("federation_siblings_active", Fixed(EMPTY)),
    ("federation_siblings_viable", Fixed(EMPTY)),
    ("flags", Fixed("[]")),
    ("gres_detail", Own(|row, _| gres_detail(row.job))),
    ("group_id", Own(|row, _| integer(cells::gid(row)))),
    ("group_name", Text(cells::group)),
    ("het_job_id", Fixed(ZERO)),
    ("het_job_id_set", Fixed(EMPTY)),
    ("het_job_offset", Fixed(ZERO)),
    ("hold", Own(|row, _| json!(row.job.wait.held_by.is_some()))),
    ("job_id", Own(|row, _| json!(cells::plain_id(row.job)))),
    ("job_resources", Own(|row, _| resources(row.job))),
    ("job_size_str", Fixed("[]")),
    ("job_state", Own(|row, parser| parser.states(&[state(row.job).1]))),
    ("last_sched_evaluation", Fixed(ZERO)),
    ("licenses", Fixed(EMPTY)),
    ("mail_type", Fixed("[]")),
    ("mail_user", Text(cells::user)),
    ("max_cpus", Fixed(ZERO)),
    ("max_nodes", Fixed(ZERO)),
    ("maximum_switch_wait_time", Fixed("0")),
    ("mcs_label", Fixed(EMPTY)),
    ("memory_per_cpu", Fixed(UNSET)),
    ("memory_per_node", Own(|row, _| number(memory_per_node(row.job)))),
    ("memory_per_tres", Fixed(EMPTY)),
    ("minimum_cpus_per_node", Own(|row, _| number(parsed(cells::min_cpus(row))))),
    ("minimum_switches", Fixed("0")),
    ("minimum_tmp_disk_per_node", Fixed(ZERO)),
    ("name", Text(cells::name)),
    ("network", Fixed(EMPTY)),
    ("nice", Own(|row, _| json!(row.job.request.priority_number().saturating_neg()))),
    ("node_count", Own(|row, _| number(Some(Resources::of(row.job).nodes)))),
    ("nodes", Text(cells::nodes)),
    ("oversubscribe", Own(|row, _| json!(!row.job.request.exclusive))),
    ("partition", Text(cells::partition)),
    ("power", Fixed(r#"{"flags": []}"#)),
    ("pre_sus_time", Fixed(ZERO)),
    ("preempt_time", Fixed(ZERO)),
    ("preemptable_time", Fixed(ZERO)),
    ("prefer", Fixed(EMPTY)),
    (
        "priority",
        Own(|row, _| number(Some(u64::try_from(row.job.request.priority_number()).unwrap_or(0)))),
    ),
    ("profile", Fixed(r#"["NOT_SET"]"#)),
    ("qos", Text(cells::qos)),
    ("reboot", Fixed("false")),
    ("required_nodes", Text(cells::requested_nodes)),
    ("requeue", Own(|row, _| json!(row.job.request.requeue.unwrap_or(false)))),
    ("resize_time", Fixed(ZERO)),
    ("restart_cnt", Own(|row, _| json!(row.job.run.attempt.saturating_sub(1)))),
    ("resv_name", Fixed(EMPTY)),
    ("scheduled_nodes", Fixed(EMPTY)),
    ("selinux_context", Fixed(EMPTY)),
    ("shared", Own(|row, _| if row.job.request.exclusive { json!(["none"]) } else { json!([]) })),
    ("show_flags", Fixed(r#"["DETAIL"]"#)),
    ("sockets_per_board", Fixed("0")),
    ("sockets_per_node", Fixed(UNSET)),
    ("standard_error", Text(cells::stderr)),
    ("standard_input", Text(cells::stdin)),
    ("standard_output", Text(cells::stdout)),
    ("start_time", Own(|row, _| time(row.job.run.started_at.or_else(|| likely_start(row.job))))),
    ("state_description", Own(|row, _| text(row.job.run.cause_text.clone()))),
    ("state_reason", Own(|row, _| json!(reason(row.job)))),
    ("submit_time", Own(|row, _| time(Some(row.job.submitted_at)))),
    ("suspend_time", Own(|row, _| time(row.job.run.paused_since))),
    ("system_comment", Fixed(EMPTY)),
    ("tasks", Own(|row, _| number(Some(tres::n_tasks(row.job))))),
    ("tasks_per_board", Fixed(ZERO)),
    ("tasks_per_core", Fixed(ENDLESS)),
    ("tasks_per_node", Own(|row, _| number(parsed(cells::n_tasks_per_node(row))))),
    ("tasks_per_socket", Fixed(ENDLESS)),
    ("tasks_per_tres", Fixed(ZERO)),
    ("thread_spec", Fixed("0")),
    ("threads_per_core", Fixed(UNSET)),
    ("time_limit", Own(|row, _| bounded(limit(row.job).map(|seconds| seconds / 60)))),
    ("time_minimum", Fixed(ZERO)),
    ("tres_alloc_str", Text(cells::allocated)),
    ("tres_bind", Fixed(EMPTY)),
    ("tres_freq", Fixed(EMPTY)),
    ("tres_per_job", Fixed(EMPTY)),
    ("tres_per_node", Text(cells::gpus_per_node)),
    ("tres_per_socket", Fixed(EMPTY)),
    ("tres_per_task", Fixed(EMPTY)),
    ("tres_req_str", Text(cells::requested)),
    ("user_id", Own(|row, _| integer(cells::uid(row)))),
    ("user_name", Text(cells::user)),
    ("wckey", Fixed(EMPTY)),
];

#[must_use]
pub fn job(row: &SlurmJobRow<'_>, parser: Parser) -> Value {
    let value = |content: &JsonContent| match content {
        Text(cell) => text(cell(row)),
        Own(of) => of(row, parser),
        Fixed(literal) => fixed(literal),
    };
    let keys = KEYS.iter().map(|(key, content)| ((*key).to_owned(), value(content)));
    Value::Object(keys.collect())
}

fn parsed(text: Option<String>) -> Option<u64> {
    text?.parse().ok()
}

fn integer(text: Option<String>) -> Value {
    json!(parsed(text).unwrap_or(0))
}

fn memory_per_node(job: &Job) -> Option<u64> {
    let all = Resources::requested(job);
    Some((all.memory? / all.nodes.max(1)) >> 20)
}

/// The number of the array; 0 for other jobs.
#[must_use]
pub fn array_id(job: &Job) -> u64 {
    job.id.split_once('.').and_then(|(number, _)| number.parse().ok()).unwrap_or(0)
}

/// The index of an element; a row of several elements has none.
#[must_use]
pub fn array_index(row: &SlurmJobRow<'_>) -> Option<u64> {
    row.job.id.split_once('.')?.1.parse().ok()
}

/// The indexes of a row of several elements.
#[must_use]
pub fn array_indexes(job: &Job) -> String {
    let indexes = job.id.split_once('.').and_then(|(_, indexes)| indexes.strip_prefix('['));
    indexes.map(|indexes| indexes.trim_end_matches(']').to_owned()).unwrap_or_default()
}

/// The GPUs on each node: `gpu:2(IDX:0-1)`.
fn gres_detail(job: &Job) -> Value {
    let held = job.placement.iter().filter(|placed| !placed.devices.is_empty());
    held.map(|placed| Value::String(tres::gres("gpu", &placed.devices))).collect()
}

/// The allocated resources of each node; null before the start.
fn resources(job: &Job) -> Value {
    let nodes = tres::nodes(job);
    if nodes.is_empty() {
        return Value::Null;
    }
    let of_node = |(index, name): (usize, &&str)| {
        let placed: Vec<&PlacedOn> = job.placement.iter().filter(|it| it.node == **name).collect();
        let held = Resources::of_placed(job, &placed).unwrap_or_default();
        json!({
            "index": index,
            "name": name,
            "cpus": { "count": held.cpus, "used": held.cpus },
            "memory": { "used": 0, "allocated": held.memory.unwrap_or(0) >> 20 },
            "sockets": [],
        })
    };
    json!({
        "select_type": ["CORE"],
        "nodes": {
            "count": nodes.len(),
            "select_type": ["AVAILABLE"],
            "list": super::hostlist::compressed(&nodes),
            "whole": false,
            "allocation": nodes.iter().enumerate().map(of_node).collect::<Vec<_>>(),
        },
        "cpus": Resources::of(job).cpus,
        "threads_per_core": number(None),
    })
}
