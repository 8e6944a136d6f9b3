//! Files, environments and names that are too large, missing, blocked, or deceptive.

use crate::harness::{Cluster, Gate, Running};
use crate::http::Http;

#[test]
fn an_environment_of_many_megabytes_is_refused() {
    let cluster = Cluster::new("none");
    let with = |n_variables: usize| {
        let mut command = cluster.command();
        // The kernel accepts at most 128 KiB for each variable.
        for n in 0..n_variables {
            command.env(format!("BIG_{n}"), "x".repeat(100_000));
        }
        command.args(["submit", "--", "true"]);
        command
    };
    // The kernel refuses the first; the second is allowed by the kernel but too large for a
    // request.
    assert!(with(100).output().is_err());
    Running::start(&mut with(15), None).end().refused(2, &["too large", "--clean-env"]);
    let big =
        serde_json::json!({"command": ["true"], "environment": {"BIG": "x".repeat(20 << 20)}});
    let answer = Http::new(&cluster).post("/api/v1/jobs", &big);
    assert_eq!((answer.status, answer.problem_code()), (413, "GP0102".to_owned()));
    assert!(cluster.all_ids().is_empty());
}

#[test]
fn a_job_whose_folder_vanishes_is_held_until_it_is_back() {
    let cluster = Cluster::new("none");
    let folder = cluster.work().join("gone");
    std::fs::create_dir(&folder).unwrap();
    let id = cluster.submit(["--hold", "--cwd", "gone", "--", "true"]);
    std::fs::remove_dir(&folder).unwrap();
    cluster.gpool(["release", &id]).ok();
    let job = cluster.until_is(&id, "held");
    assert_eq!(job.wait.reasons[0].code, "node_lacks");
    assert!(job.wait.reasons[0].text.contains("gone does not exist"), "{job:?}");
    std::fs::create_dir(&folder).unwrap();
    cluster.gpool(["release", &id]).ok();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    // The working directory of the command is deleted before the command starts.
    let folder = cluster.work().join("under-foot");
    std::fs::create_dir(&folder).unwrap();
    let mut command = cluster.command();
    command.current_dir(&folder);
    let mut shell = std::process::Command::new("sh");
    shell.env_clear().envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    shell.current_dir(&folder).args(["-c", "rmdir \"$PWD\"; exec \"$0\" submit -- true"]);
    shell.arg(command.get_program());
    Running::start(&mut shell, None).end().refused(2, &["folder"]);
}

#[test]
fn files_that_can_not_be_written_fail_the_job_with_their_name() {
    let cluster = Cluster::new("none");
    for path in ["no/such/folder/out", "/proc/nothing-can-be-made-here", "."] {
        let id = cluster.submit(["--stdout", path, "--", "true"]);
        let job = cluster.until_ended(&id);
        assert_eq!(job.run.cause.as_deref(), Some("launch_failed"), "{path}: {job:?}");
        assert!(job.run.cause_text.unwrap().contains(path.trim_start_matches('.')), "{path}");
    }
    let id = cluster.submit(["--stdin", "no-such-input", "--", "cat"]);
    let job = cluster.until_ended(&id);
    assert!(job.run.cause_text.is_some_and(|text| text.contains("no-such-input")));
    // A FIFO without a reader blocks no other job.
    Gate::new(&cluster, "work/fifo");
    let id = cluster.submit(["--stdout", "fifo", "--", "true"]);
    let next = cluster.submit(["--", "true"]);
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(0));
    cluster.gpool(["cancel", &id]);
    assert!(cluster.until_ended(&id).state.is_end());
}

#[test]
fn names_never_reach_a_terminal_raw() {
    let cluster = Cluster::new("none");
    let http = Http::new(&cluster);
    let name = "evil\u{1b}[2J\u{1b}]0;title\u{7}";
    let body = serde_json::json!({"command": ["sleep", "1000"], "name": name, "note": name});
    let answer = http.post("/api/v1/jobs", &body);
    let shown_somewhere = answer.status == 201;
    if !shown_somewhere {
        assert_eq!((answer.status, answer.problem_code()), (400, "GP0101".to_owned()));
    }
    for bad in ["a\nb", "a\rb", "a\0b"] {
        let body = serde_json::json!({"command": ["sleep", "1000"], "name": bad});
        let answer = http.post("/api/v1/jobs", &body);
        assert!([201, 400].contains(&answer.status), "{bad:?}: {answer:?}");
    }
    // Commands are shown too, and may hold any character but NUL.
    let id = cluster.submit(["--hold", "--", "echo", name, "two\nlines"]);
    let failing = cluster.submit(["--", &format!("no-such-{name}")]);
    cluster.until_ended(&failing);
    for words in [
        &["queue", "--state", "all"][..],
        &["queue", "--state", "all", "-o", "wide"],
        &["queue", "--state", "all", "-o", "csv"],
        &["queue", "--state", "all", "-o", "json"],
        &["show", &id],
        &["show", &failing],
        &["why", &id],
        &["cancel", name],
        &["show", "no\u{1b}[31msuch"],
        &["submit", "no\u{1b}[31msuch.sh"],
    ] {
        let ran = cluster.gpool(words);
        let said = format!("{}{}", ran.out, ran.err);
        let is_raw = said.chars().any(|c| c.is_control() && c != '\n');
        assert!(!is_raw, "{words:?}: {said:?}");
    }
    // A row is one line, even if the name has line breaks.
    let table = cluster.gpool(["queue", "--state", "all", "--format", "id,name"]).ok();
    let n_jobs = cluster.all_ids().len();
    let n_rows =
        table.lines().skip(1).take_while(|line| line.starts_with(char::is_numeric)).count();
    assert_eq!(n_rows.min(n_jobs), n_jobs, "{table}");
}
