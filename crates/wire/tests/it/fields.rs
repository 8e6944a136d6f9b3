//! The table of the fields of a job request: its completeness, and everything derived from it.

use std::collections::BTreeSet;

use gpool_model::array::ArrayState;
use gpool_model::job::BlobId;
use gpool_model::{JobId, JobSpec, Owner, Phase, Timestamp};
use gpool_wire::field::{Group, Values, field, fields};
use gpool_wire::show::JobFacts;
use gpool_wire::{Job, JobCreate};
use serde_json::{Map, Value, json};
use utoipa::PartialSchema as _;

/// A value for each field.
fn samples() -> Map<String, Value> {
    let all = serde_json::from_str(
        r##"{
        "command": ["true"],
        "script": {"name": "a.sh", "text": "#!/bin/sh\n"},
        "name": "train",
        "gpus": "a100:2",
        "gpu_share": "0.5",
        "gpu_memory": "20G",
        "kind": "notebook",
        "idle_after": "30m",
        "enforce": "capped",
        "share_with": "project",
        "cpus": "4",
        "mem": "1G",
        "nodes": "2-4",
        "tasks_per_node": 2,
        "tasks": "8",
        "parts": ["head:1xcpu", "worker:2xa100:4,cpus=8"],
        "torchrun": true,
        "launcher": 2,
        "time": "1h",
        "grace": "5s",
        "stop_signal": "INT",
        "priority": -5,
        "project": "vision",
        "pool": "batch",
        "node": ["lab1"],
        "not_node": ["lab2"],
        "where": ["rack=3"],
        "topology": "prefer same-rack",
        "group": "tuning/trial/12",
        "exclusive": true,
        "directory": "/home/ana",
        "environment": {"A": "1"},
        "environment_bytes": "QT0xAA==",
        "stdin": "in",
        "stdout": "out",
        "stderr": "err",
        "open_mode": "append",
        "pty": {"rows": 24, "columns": 80},
        "activate": [{"venv": "/v"}],
        "image": "ubuntu:24.04",
        "mounts": ["/data:/data:ro"],
        "workdir": "/work",
        "container_user": "1000:1000",
        "pull": "never",
        "image_login": "REGISTRY",
        "secrets": ["HF_TOKEN"],
        "upload": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "download": ["out/*.csv"],
        "setup": {"run": "uv sync"},
        "after": ["ok:1"],
        "after_one": ["end:2"],
        "on_node_lost": "end",
        "on_unmet": "keep",
        "begin": "2026-11-20T15:30:00Z",
        "deadline": "2026-11-21T15:30:00Z",
        "signal_before": "90s",
        "retry": {"most": 3},
        "requeue": true,
        "preemptible": false,
        "exits": ["kill"],
        "checkpoint": "USR1",
        "yields": "USR2@60s",
        "array": "0-9",
        "max_parallel": 2,
        "max_fails": 1,
        "metric": "loss:min",
        "params": [{"name": "lr", "values": ["1", "2"]}],
        "items": ["a"],
        "table": {"names": ["a"], "rows": [["1"]]},
        "hold": true,
        "note": "mine",
        "notify": ["fail@https://host/path"],
        "allow_unsatisfiable": true,
        "umask": 18,
        "compat": ["slurm"],
        "origin": {"line": "sbatch a.sh", "script": "/home/ana/a.sh"}
    }"##,
    );
    let Value::Object(all) = all.unwrap() else { panic!("it is an object") };
    all
}

fn with(key: &str, value: &Value) -> JobCreate {
    serde_json::from_value(json!({key: value})).unwrap_or_else(|error| panic!("{key}: {error}"))
}

#[test]
fn each_field_of_the_api_has_one_row() {
    let schema = serde_json::to_value(JobCreate::schema()).unwrap();
    let schema: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let rows: Vec<&str> = fields().map(|field| field.key).collect();
    assert_eq!(rows.iter().copied().collect::<BTreeSet<_>>(), schema);
    assert_eq!(rows.len(), schema.len(), "each once");
    let sampled = samples();
    assert_eq!(sampled.keys().map(String::as_str).collect::<BTreeSet<_>>(), schema);
}

/// What the API shows of a request is a request again, with the same meaning.
#[test]
fn a_shown_request_can_be_submitted() {
    let never_shown: BTreeSet<&str> =
        fields().filter(|field| field.show.is_none()).map(|field| field.key).collect();
    let expected = [
        // Stored apart from the record of the job.
        "params",
        "items",
        "table",
        "environment",
        "environment_bytes",
        // Another job, a state, an attribute of the process that starts the job.
        "setup",
        "hold",
        "umask",
        // The text of `gpus` contains them.
        "gpu_share",
        "gpu_memory",
    ];
    assert_eq!(never_shown, expected.into());
    // Each alone: some exclude others.
    for (key, value) in samples() {
        let mut request = JobCreate { command: vec!["a".to_owned()], ..JobCreate::default() };
        if ["max_parallel", "max_fails", "metric"].contains(&&*key) {
            request.array = Some("0-9".to_owned());
        }
        if ["mounts", "workdir", "container_user", "pull", "image_login"].contains(&&*key) {
            request.image = Some("tool:1".to_owned());
        }
        request.gpus = (key != "parts").then(|| "a100:1".to_owned());
        request.time = Some("9h".into());
        let mut json = serde_json::to_value(&request).unwrap();
        json[&key] = value.clone();
        let request: JobCreate = serde_json::from_value(json).unwrap();
        let shown = shown(&request, &key);
        // A script is shown without its content, and stored apart, too.
        if !never_shown.contains(&*key) && key != "script" {
            let field = field(&key).unwrap();
            assert!((field.is_said)(&shown), "{key} is not shown: {shown:?}");
        }
        // Addresses of notifications are shown without their paths.
        if !["params", "items", "table", "script", "notify"].contains(&&*key) {
            assert_eq!(self::shown(&shown, &key), shown, "{key}");
        }
    }
}

/// The request that the API shows for a job that this one makes.
fn shown(request: &JobCreate, key: &str) -> JobCreate {
    let checked = request.check("/home/ana").unwrap_or_else(|error| panic!("{key}: {error:?}"));
    let mut request = checked.into_new_job(BlobId("c".into()), None).request;
    // As the server records it.
    let standing = std::mem::take(&mut request.standing).into_inner();
    let phase = Phase::Pending { since: Timestamp::ZERO };
    let job = gpool_model::Job {
        array: request.array.as_deref().map(|it| Box::new(ArrayState::new(it, &standing))),
        note: standing.note,
        notify: standing.notify,
        ..gpool_model::Job::new(JobId::single(7), standing.priority, phase)
    };
    let spec = JobSpec {
        id: job.id,
        owner: Owner { uid: 1000, gid: 1000, user: "ana".into() },
        request,
        script: None,
        context: BlobId("c".into()),
        setup: None,
        joins: None,
        retry_of: None,
        submitted_at: Timestamp::ZERO,
    };
    let shown = Job::new(&spec, &job, spec.submitted_at, &JobFacts::default());
    JobCreate { name: Some(shown.name), project: Some(shown.project), ..shown.request }
}

#[test]
fn a_line_takes_every_default_that_it_does_not_say() {
    for (key, value) in samples() {
        let defaults = with(&key, &value);
        let field = field(&key).unwrap();
        assert!((field.is_said)(&defaults), "{key}");
        let mut line = JobCreate::default();
        line.fill_from(&defaults);
        let is_merged_as_bytes = field.group == Group::Environment;
        assert_eq!(line == defaults, !is_merged_as_bytes, "{key}");
        let mut own = defaults.clone();
        own.fill_from(&JobCreate::default());
        assert_eq!(own, defaults, "{key}");
        assert_eq!(JobCreate::default().over(defaults.clone()), defaults, "{key}");
    }
}

#[test]
fn a_line_that_says_one_of_a_group_takes_none_of_it() {
    let defaults: JobCreate =
        serde_json::from_value(json!({"nodes": 2, "tasks_per_node": 4, "gpus": "1"})).unwrap();
    let mut line = with("tasks", &json!(8));
    line.fill_from(&defaults);
    assert_eq!(serde_json::to_value(&line).unwrap(), json!({"tasks": 8, "gpus": "1"}));
}

#[test]
fn layers_of_flags_join_lists_and_the_upper_one_wins() {
    let upper: JobCreate = serde_json::from_value(
        json!({"tasks": "8", "not_node": ["b"], "node": ["n1"], "compat": ["gflow"]}),
    )
    .unwrap();
    let lower: JobCreate = serde_json::from_value(json!({
        "nodes": "2", "tasks_per_node": 2, "not_node": ["a"], "node": ["n2"], "time": "1h"
    }))
    .unwrap();
    let both = serde_json::to_value(upper.over(lower)).unwrap();
    let expected = json!({
        "tasks": "8", "not_node": ["a", "b"], "node": ["n1"], "compat": ["gflow"], "time": "1h"
    });
    assert_eq!(both, expected);
}

#[test]
fn flags_read_into_the_field_that_they_are_of() {
    let word = |key: &str| match key {
        "tasks_per_node" | "launcher" | "max_parallel" | "max_fails" => "2",
        "priority" => "-5",
        "requeue" | "preemptible" => "true",
        key => samples()[key].as_str().map_or("slurm", |text| text.to_owned().leak()),
    };
    let mut longs = BTreeSet::new();
    for field in fields() {
        let Some(flag) = &field.flag else { continue };
        assert!(longs.insert(flag.long), "--{} stands twice", flag.long);
        let mut job = JobCreate::default();
        let value = if matches!(flag.values, Values::Switch) && flag.opposite.is_none() {
            Vec::new()
        } else {
            vec![word(field.key).to_owned()]
        };
        (field.slot)(&mut job).read(value);
        assert!((field.is_said)(&job), "--{}", flag.long);
    }
}
