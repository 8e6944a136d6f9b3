//! From a request to a job: accepted values, refused values, and the messages.

use gpool_model::job::{BlobId, DependencyKind};
use gpool_model::{Bytes, LimitChange, MilliCpu, Millis, NewJob, Refusal};
use gpool_wire::{ExtendJobs, JobCreate, Script, json};

fn read(text: &str) -> JobCreate {
    json::read(text.as_bytes()).unwrap_or_else(|problem| panic!("{text}: {problem:?}"))
}

fn taken(text: &str) -> NewJob {
    let checked = read(text).check("/home/ana").unwrap_or_else(|e| panic!("{text}: {e:?}"));
    checked.into_new_job(BlobId("context".into()), None)
}

fn refused(text: &str) -> (String, String) {
    match read(text).check("/home/ana") {
        Err(Refusal::Invalid { field, why }) => (field, why),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_line_of_the_manual_is_a_job() {
    let job = taken(r#"{"command":["true"],"gpus":"1","name":"a"}"#);
    assert_eq!((&*job.name, job.gpus.n_devices(), &*job.gpus_written), ("a", 1, "1"));
    assert_eq!((job.project.as_str(), job.directory.as_str()), ("default", "/home/ana"));
    assert_eq!((job.cpus, job.memory, job.time_limit), (None, None, None));
    assert_eq!(
        (job.grace, job.standing.priority, job.standing.hold),
        (Millis::from_secs(30), 0, false)
    );
}

#[test]
fn amounts_are_numbers_or_text() {
    for (text, cpus, memory, time) in [
        (r#""cpus":4,"mem":1073741824,"time":90"#, 4000, 1 << 30, 90_000),
        (r#""cpus":0.5,"mem":"1G","time":1.5"#, 500, 1 << 30, 1500),
        (r#""cpus":"0.5","mem":"1.5G","time":"90""#, 500, 3 << 29, 5_400_000),
        (r#""cpus":"2","mem":"512M","time":"1h30m""#, 2000, 1 << 29, 5_400_000),
    ] {
        let job = taken(&format!(r#"{{"command":["a"],{text}}}"#));
        assert_eq!(job.cpus, Some(MilliCpu::new(cpus)), "{text}");
        assert_eq!(job.memory, Some(Bytes::new(memory)), "{text}");
        assert_eq!(job.time_limit, Some(Millis::new(time)), "{text}");
    }
}

#[test]
fn a_time_limit_is_read_in_every_form() {
    for (text, millis) in [
        ("90s", 90_000),
        ("5m", 300_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("90", 5_400_000),
        ("2:30", 150_000),
        ("01:30:00", 5_400_000),
        ("2-12", 216_000_000),
        ("2-12:30", 217_800_000),
        ("2-00:00:30", 172_830_000),
        ("1500ms", 1500),
    ] {
        let limit = Some(Millis::new(millis));
        let job = taken(&format!(r#"{{"command":["a"],"time":"{text}"}}"#));
        assert_eq!(job.time_limit, limit, "{text}");
        let change = ExtendJobs { to: Some(text.into()), ..ExtendJobs::default() };
        assert_eq!(change.check(), Ok(LimitChange::To { limit }), "{text}");
    }
}

#[test]
fn a_job_names_at_most_100_000_others() {
    let after = |n: usize| JobCreate {
        command: vec!["a".to_owned()],
        after: (1..=n).map(|id| id.to_string()).collect(),
        ..JobCreate::default()
    };
    assert!(after(1000).check("/home/ana").is_ok());
    let Err(Refusal::Invalid { field, why }) = after(100_001).check("/home/ana") else {
        panic!("it is refused")
    };
    assert_eq!((&*field, &*why), ("after", "it has 100001 jobs; the maximum is 100000"));
}

#[test]
fn bad_values_name_their_field() {
    let long = "x".repeat(129);
    let huge = "x".repeat(128 * 1024);
    for (text, field, words) in [
        (r#"{}"#, "command", "give a program"),
        (r#"{"command":[""]}"#, "command", "empty"),
        (r#"{"command":["a\u0000b"]}"#, "command", "zero byte"),
        (r#"{"command":["a"],"gpus":"0.8:0.25"}"#, "gpus", "0.25:0.8"),
        (r#"{"command":["a"],"gpus":"0.25:1.5"}"#, "gpus", "0.25:1"),
        (r#"{"command":["a"],"gpus":"1@0.25:40G"}"#, "gpus", "mixes"),
        (r#"{"command":["a"],"gpu_share":"0.5:0.25"}"#, "gpu_share", "0.25:0.5"),
        (r#"{"command":["a"],"gpu_memory":"40G:20G"}"#, "gpu_memory", "20G:40G"),
        (r#"{"command":["a"],"gpus":"-1"}"#, "gpus", "a100:2"),
        (r#"{"command":["a"],"gpus":""}"#, "gpus", "a100:2"),
        (r#"{"command":["a"],"cpus":"1e3"}"#, "cpus", "position"),
        (r#"{"command":["a"],"cpus":0.0001}"#, "cpus", "0.5"),
        (r#"{"command":["a"],"mem":"20"}"#, "mem", "20G"),
        (r#"{"command":["a"],"mem":1.5}"#, "mem", "whole"),
        (r#"{"command":["a"],"time":0}"#, "time", "more than 0"),
        (r#"{"command":["a"],"time":"11000d"}"#, "time", "ten years"),
        (r#"{"command":["a"],"time":18446744073709551615}"#, "time", "out of range"),
        (r#"{"command":["a"],"time":1e300}"#, "time", "out of range"),
        (r#"{"command":["a"],"grace":"2h"}"#, "grace", "1h"),
        (r#"{"command":["a"],"priority":1001}"#, "priority", "1000"),
        (r#"{"command":["a"],"project":"a b"}"#, "project", "letters"),
        (r#"{"command":["a"],"directory":"here"}"#, "directory", "absolute"),
        (r#"{"command":["a"],"stdout":""}"#, "stdout", "empty"),
        (r#"{"command":["a"],"name":"a\nb"}"#, "name", "control"),
        (r#"{"command":["a"],"name":"\u001b[31mred"}"#, "name", "control"),
        (r#"{"command":["a"],"name":"\u202egnp.exe"}"#, "name", "control"),
        (r#"{"command":["a"],"name":" "}"#, "name", "empty"),
        (r#"{"command":["a"],"note":"\u0007"}"#, "note", "control"),
        (r#"{"command":["a"],"after":["x"]}"#, "after", "job id"),
        (r#"{"command":["a"],"after":["any:1"]}"#, "after", "ok:"),
        (r#"{"command":["a"],"umask":512}"#, "umask", "777"),
        (r#"{"command":["a"],"umask":99999}"#, "umask", "777"),
        (r#"{"command":["a"],"environment":{"":"x"}}"#, "environment", "not the name"),
        (r#"{"command":["a"],"environment":{"A=B":"x"}}"#, "environment", "not the name"),
        (r#"{"command":["a"],"environment":{"A":"\u0000"}}"#, "environment", "zero byte"),
        (r#"{"command":["a"],"environment_bytes":"??"}"#, "environment_bytes", "ymbol"),
        (r#"{"command":["a"],"environment_bytes":"QUIA"}"#, "environment_bytes", "NAME=VALUE"),
        (r#"{"script":{"name":"a.sh"}}"#, "script", "one of"),
        (r#"{"script":{"name":"a/b.sh","text":"x"}}"#, "script name", "folders"),
        (r#"{"script":{"name":"a.sh","text":"echo"}}"#, "script", "#!/bin/bash"),
        (r#"{"script":{"name":"a.sh","text":"\u0000ELF"}}"#, "script", "binary"),
        (&format!(r#"{{"command":["a"],"name":"{long}"}}"#), "name", "128"),
        (&format!(r#"{{"command":["a","{huge}"]}}"#), "command", "131072"),
        (&format!(r#"{{"command":["a"],"environment":{{"A":"{huge}"}}}}"#), "environment", "unset"),
    ] {
        let (found, why) = refused(text);
        let shown: String = text.chars().take(80).collect();
        assert_eq!(found, field, "{shown}: {why}");
        assert!(why.contains(words), "{shown}: {why}");
    }
}

#[test]
fn a_job_without_a_name_is_named_for_its_command() {
    for (text, name) in [
        (r#"{"command":["/usr/bin/python3","x.py"]}"#, "python3"),
        (r#"{"command":["./a\u001b\nb"]}"#, "a??b"),
        (r#"{"command":["/"]}"#, "job"),
        (r##"{"script":{"name":"train.sh","text":"#!/bin/sh\n"},"command":["-x"]}"##, "train.sh"),
    ] {
        assert_eq!(&*taken(text).name, name, "{text}");
    }
}

#[test]
fn environments_are_bytes_and_text_together() {
    let job = read(
        // A=1, B=0xff, each ended by a zero byte.
        r#"{"command":["a"],"environment_bytes":"QT0xAEI9/wA=","environment":{"A":"2","C":"ü"}}"#,
    );
    let entries = job.environment_entries().unwrap();
    let entries: Vec<(&[u8], &[u8])> =
        entries.iter().map(|(name, value)| (&name[..], &value[..])).collect();
    assert_eq!(entries, [(&b"A"[..], &b"2"[..]), (b"B", b"\xff"), (b"C", "ü".as_bytes())]);
}

#[test]
fn dependencies_are_read_in_every_form() {
    let job = taken(r#"{"command":["a"],"after":["1","ok:2","fail:3","end:4"]}"#);
    let kinds: Vec<DependencyKind> = job.after.iter().map(|after| after.kind).collect();
    use DependencyKind::{End, Fail, Ok};
    assert_eq!(kinds, [Ok, Ok, Fail, End]);
    assert_eq!(job.after[3].job.to_string(), "4");
}

#[test]
fn a_script_is_text_that_says_what_runs_it() {
    assert!(Script::new("a.sh", b"#!/bin/sh\n\xff\xfe\n".to_vec()).is_ok(), "any bytes but zero");
    assert!(Script::new("a.sh", b"".to_vec()).is_err());
    assert!(Script::new("", b"#!/bin/sh\n".to_vec()).is_err());
}

#[test]
fn what_a_line_says_goes_before_the_defaults() {
    let defaults = read(r#"{"command":["a"],"gpus":"2","name":"d","hold":true,"time":"5m"}"#);
    let mut line = read(r#"{"name":"own","gpus":"1"}"#);
    line.fill_from(&defaults);
    assert_eq!(line, read(r#"{"command":["a"],"gpus":"1","name":"own","hold":true,"time":"5m"}"#));
}

#[test]
fn a_job_reads_what_it_writes() {
    for text in [
        r#"{"command":["a"]}"#,
        r##"{"script":{"name":"a.sh","text":"#!/bin/sh"},"cpus":0.5,"mem":"1G","umask":18}"##,
        r#"{"command":["a"],"environment":{"A":"1"},"after":["1"],"note":"x","stdin":"/x"}"#,
    ] {
        let job = read(text);
        let written = serde_json::to_string(&job).unwrap();
        assert_eq!(read(&written), job);
        let keys = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(keys(&written), keys(text), "what is absent stays absent");
    }
}

#[test]
fn a_setup_has_the_folder_of_its_job_and_none_of_its_gpus() {
    let text = r#"{"command": ["a"], "name": "train", "gpus": "2", "mem": "1G", "hold": true,
        "setup": {"run": "uv sync"}}"#;
    let job: JobCreate = serde_json::from_str(text).unwrap();
    let jobs = job.check("/home/ana").unwrap().into_new_jobs(BlobId("c".into()), None);
    let [setup, main] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!((&*setup.name, &*setup.directory), ("train:setup", "/home/ana"));
    assert_eq!(setup.command, ["/bin/sh", "-c", "uv sync"]);
    assert!(
        setup.gpus.is_none()
            && setup.memory.is_none()
            && !setup.standing.hold
            && !setup.after_setup
    );
    assert!(main.standing.hold && main.after_setup && !main.gpus.is_none());
    let empty: JobCreate =
        serde_json::from_str(r#"{"command": ["a"], "setup": {"run": " "}}"#).unwrap();
    assert!(empty.check("/").is_err());
}

#[test]
fn a_placeholder_without_a_parameter_is_refused() {
    let of = |word: &str| {
        format!(r#"{{"command":["echo","{word}"],"params":[{{"name":"lr","values":["1"]}}]}}"#)
    };
    for (word, expected) in [("{foo}", "there are {lr}."), ("a{lR}b", "did you mean {lr}?")] {
        let (field, why) = refused(&of(word));
        assert_eq!(field, "command");
        assert!(why.contains(expected) && why.contains("in word 2"), "{why}");
    }
    for word in ["{lr}", "{{foo}}", "${foo}", "{1}", "{print $1}"] {
        assert!(read(&of(word)).check("/home/ana").is_ok(), "{word}");
    }
    assert!(read(r#"{"command":["echo","{foo}"]}"#).check("/home/ana").is_ok());
}
