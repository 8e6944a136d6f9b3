//! The parts of a job that come from the submitting process: environment, umask, working folder.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use gpool_cli::caller::{Environment, Variable, passed, umask};

fn names(clean: bool, variables: &[&str]) -> Vec<String> {
    let inherited = [("PATH", "/bin"), ("HOME", "/root"), ("SECRET", "x"), ("LD_PRELOAD", "y")];
    let inherited = inherited.into_iter().map(|(n, v)| (n.into(), v.into()));
    let variables: Vec<Variable> = variables.iter().map(|v| v.parse().expect("valid")).collect();
    passed(inherited, clean, &variables)
        .into_iter()
        .map(|(n, v)| format!("{}={}", String::from_utf8_lossy(&n), String::from_utf8_lossy(&v)))
        .collect()
}

#[test]
fn a_clean_environment_has_what_was_asked_for() {
    assert_eq!(names(true, &["A=1"]), ["PATH=/bin", "HOME=/root", "A=1"]);
    assert_eq!(names(true, &["SECRET"]), ["PATH=/bin", "HOME=/root", "SECRET=x"]);
    assert_eq!(names(true, &["NOT_SET"]), ["PATH=/bin", "HOME=/root"]);
    assert_eq!(
        names(false, &["PATH=/x=y", "PATH=/z"]),
        ["HOME=/root", "SECRET=x", "LD_PRELOAD=y", "PATH=/z"]
    );
}

#[test]
fn a_job_does_not_pass_on_what_describes_itself() {
    let of_job = [
        ("GPOOL_JOB_ID", "1"),
        ("GPOOL_SUBMIT_TIME", "1h"),
        ("SLURM_GPUS_PER_TASK", "2"),
        ("SLURM_CONF", "/c"),
        ("SRUN_GPUS_PER_TASK", "2"),
        ("A", "1"),
    ];
    let inherited = || of_job.into_iter().map(|(n, v)| (n.into(), v.into()));
    let own = ["SLURM_GPUS_PER_TASK=4".parse::<Variable>().expect("valid")];
    let names = |all: Vec<(Vec<u8>, Vec<u8>)>| -> Vec<String> {
        all.into_iter().map(|(n, _)| String::from_utf8_lossy(&n).into_owned()).collect()
    };
    let expected = ["GPOOL_SUBMIT_TIME", "SLURM_CONF", "A", "SLURM_GPUS_PER_TASK"];
    assert_eq!(names(passed(inherited(), false, &own)), expected);
    let outside = passed(inherited().skip(1), false, &[]);
    assert_eq!(outside.len(), 5, "the user may have set them");
}

#[test]
fn names_of_variables_are_checked() {
    for text in ["", "=1", "1A=1", "A B=1", "A\n=1", "é=1"] {
        assert!(text.parse::<Variable>().is_err(), "{text}");
    }
}

#[test]
fn what_is_no_text_travels_as_bytes() {
    let environment =
        Environment::new(vec![(b"A".to_vec(), b"1".to_vec()), (b"B".to_vec(), b"\xff".to_vec())]);
    assert_eq!(environment.text, BTreeMap::from([("A".to_owned(), "1".to_owned())]));
    assert_eq!(environment.bytes, Some(BASE64_STANDARD.encode(b"B=\xff\0")));
}

#[test]
fn the_mask_is_read() {
    assert!(umask().is_some_and(|mask| mask <= 0o777));
}
