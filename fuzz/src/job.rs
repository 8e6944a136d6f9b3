//! Bodies of requests: jobs, many jobs, and all other JSON requests.

use gpool_api::fuzzing;
use gpool_model::NewJob;
use gpool_model::job::BlobId;
use gpool_wire::check::{checked_name, checked_priority};
use gpool_wire::{
    CheckedJob, JobCreate, JobPatch, PolicyPatch, Problem, ProjectSet, ProjectSettings, Selection,
    Shutdown, SignalJobs, json, signal,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::input::{choose, cut, is_problem, is_shown};

/// The working directory of a job that does not set one.
const HOME: &str = "/home/ana";

/// Runs the checks.
pub fn check(input: &[u8]) {
    let Some((parser, body)) = choose(input, 8) else { return };
    match parser {
        0 | 1 => job(body),
        2 | 3 => bulk(body),
        4 => devices(body),
        5 => patch(body),
        6 => selection(body),
        _ => others(body),
    }
}

/// A request is the same after it was written and read again; a refusal says why.
fn read<T: DeserializeOwned + Serialize>(body: &[u8]) -> Option<T> {
    match json::read::<T>(body) {
        Ok(value) => {
            let written = serde_json::to_value(&value).expect("requests are plain data");
            let sent = serde_json::to_vec(&written).expect("requests are plain data");
            let again: T = json::read(&sent).expect("what is written can be read");
            is_same(&written, &serde_json::to_value(&again).expect("requests are plain data"));
            Some(again)
        }
        Err(problem) => {
            is_problem(&problem);
            None
        }
    }
}

/// Floats are compared approximately: the parser is fast but not exact to the last bit.
fn is_same(one: &Value, other: &Value) {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            assert!((a - b).abs() <= a.abs() * 1e-12, "{a} became {b}");
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).for_each(|(a, b)| is_same(a, b));
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            for (key, a) in a {
                is_same(a, b.get(key).unwrap_or(&Value::Null));
            }
        }
        _ => assert_eq!(one, other),
    }
}

fn job(body: &[u8]) {
    let Some(job) = read::<JobCreate>(body) else { return };
    match job.check(HOME) {
        Ok(checked) => is_valid(checked, &job),
        Err(refusal) => is_problem(&Problem::from(refusal)),
    }
    let mut filled = JobCreate::default();
    filled.fill_from(&job);
    assert_eq!(filled.command, job.command);
}

/// Checks the properties of an accepted job.
fn is_valid(checked: CheckedJob, written: &JobCreate) {
    for (name, value) in &checked.environment {
        assert!(!name.is_empty() && !name.contains(&b'=') && !name.contains(&0), "{name:?}");
        assert!(!value.contains(&0), "{value:?}");
    }
    assert!(checked.umask.is_none_or(|umask| umask <= 0o777));
    let has_script = checked.script.is_some();
    if let Some(script) = &checked.script {
        assert!(script.bytes.starts_with(b"#!") && !script.name.contains('/'));
        is_shown(&script.name);
    }
    let new = checked.into_new_job(BlobId("context".into()), None);
    assert!(has_script || new.command.first().is_some_and(|program| !program.is_empty()));
    assert!(new.command.iter().all(|word| !word.contains('\0')));
    assert!(new.directory.starts_with('/') && !new.directory.contains('\0'));
    assert!(!new.name.trim().is_empty() && new.name.chars().count() <= 128);
    is_shown(&new.name);
    is_shown(new.project.as_str());
    assert_eq!(checked_name(&new.name).as_deref(), Ok(&*new.name));
    assert_eq!(checked_priority(new.standing.priority), Ok(new.standing.priority));
    assert!(new.memory.is_none_or(|memory| !memory.is_zero()));
    assert!(new.time_limit.is_none_or(|limit| !limit.is_zero()));
    assert_eq!(new.after.len(), written.after.len());
    // It can be stored as a record.
    let kept = serde_json::to_vec(&new).expect("the model has string keys");
    assert_eq!(serde_json::from_slice::<NewJob>(&kept).expect("it was written just now"), new);
}

/// The result is the same in any split of the body.
fn bulk(body: &[u8]) {
    let Some((one, other)) = cut(body) else { return };
    let whole = fuzzing::bulk(&[&[one, other].concat()]);
    assert_eq!(fuzzing::bulk(&[one, other]), whole);
    match whole {
        Ok(jobs) => {
            let n_lines = one.iter().chain(other).filter(|byte| **byte == b'\n').count() + 1;
            assert!(jobs.len() <= n_lines);
            assert!(jobs.is_sorted_by(|(a, _), (b, _)| a < b));
        }
        Err(problem) => {
            is_problem(&problem);
            let line = problem.line.expect("a problem with the lines names one");
            assert!(problem.detail.starts_with(&format!("line {line}: ")), "{}", problem.detail);
        }
    }
}

fn devices(body: &[u8]) {
    match fuzzing::devices(body) {
        Ok(devices) => assert!(devices.is_none_or(|devices| devices.len() <= 4096)),
        Err(problem) => is_problem(&problem),
    }
}

fn patch(body: &[u8]) {
    let Some(patch) = read::<JobPatch>(body) else { return };
    match patch.check() {
        Ok(checked) => {
            let note = checked.into_patch(None, None).to.standing.note.clone();
            note.iter().flat_map(|note| note.lines()).for_each(is_shown);
        }
        Err(refusal) => is_problem(&Problem::from(refusal)),
    }
}

fn selection(body: &[u8]) {
    read::<Selection>(body);
    if let Err(problem) = fuzzing::selected(body) {
        is_problem(&problem);
    }
}

fn others(body: &[u8]) {
    read::<PolicyPatch>(body);
    read::<Shutdown>(body);
    if let Some(Err(refusal)) = read::<ProjectSettings>(body).map(|asked| asked.patch()) {
        is_problem(&Problem::from(refusal));
    }
    if let Some(Err(refusal)) = read::<ProjectSet>(body).map(|asked| asked.ask()) {
        is_problem(&Problem::from(refusal));
    }
    if let Some(asked) = read::<SignalJobs>(body)
        && let Err(refusal) = signal::number(&asked.signal)
    {
        is_problem(&Problem::from(refusal));
    }
}
