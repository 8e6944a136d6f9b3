//! The user's view of a crash: the report of the next start, and the commands while no server runs.

use std::process::Command;

use gpool_wire::{Became, Before};
use rustix::process::Signal;

use crate::harness::{Cluster, Gate, Ran, Running, is_root, kill_9, skip, until_so};
use crate::users;

fn until_begun(cluster: &Cluster, id: &str) {
    until_so("the job has begun", || cluster.stdout_of(id).starts_with("begun"));
}

/// A shell line that writes `begun`, waits, and writes `done`.
pub(crate) fn waits_at(gate: &Gate) -> String {
    format!("echo begun; {}; echo done; exit 5", gate.line())
}

/// The file of a job's standard output.
pub(crate) fn stdout_file(cluster: &Cluster, id: &str) -> std::path::PathBuf {
    cluster.state().join("jobs").join(id).join("1/stdout")
}

#[track_caller]
pub(crate) fn says(ran: &Ran, words: &[&str]) {
    let text = format!("{}{}", ran.out, ran.err);
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {ran:?}");
    }
}

/// Whether a list on standard error has a row for this job that begins with this state.
fn has_row(ran: &Ran, id: &str, state: &str) -> bool {
    let begins = |line: &str| {
        let rest = line.strip_prefix(id).filter(|rest| rest.starts_with(' '));
        rest.is_some_and(|rest| rest.trim_start().starts_with(state))
    };
    ran.err.lines().any(begins)
}

/// Waits until the end is noted without a server: by the shepherd, after the output.
fn until_end_is_known(cluster: &Cluster, id: &str) {
    until_so("its end is known", || has_row(&cluster.gpool(["queue"]), id, "ended, exit 5"));
}

#[test]
fn the_next_start_reports_the_jobs_of_a_killed_server() {
    let mut cluster = Cluster::new("sim:3xH100-80G");
    assert_eq!(cluster.client().recovery().unwrap().before, Before::Nothing);
    says(&cluster.gpool(["doctor"]), &["the first start: the store is new"]);
    let (stays, ends) = (Gate::new(&cluster, "stays"), Gate::new(&cluster, "ends"));
    let kept = cluster.sh(&["--gpus", "1"], &waits_at(&stays));
    let ended = cluster.sh(&["--gpus", "1"], &waits_at(&ends));
    let lost = cluster.sh(&["--gpus", "1"], "echo begun; sleep 1000");
    let pending = cluster.sh(&["--gpus", "1"], "sleep 1000");
    let held = cluster.submit(["--hold", "--", "true"]);
    for id in [&kept, &ended, &lost] {
        until_begun(&cluster, id);
    }
    let shepherd = cluster.shepherd(&lost);
    cluster.kill();
    kill_9(shepherd);
    ends.open();
    until_end_is_known(&cluster, &ended);
    cluster.up();
    cluster.until_is(&pending, "running");

    let recovery = cluster.client().recovery().unwrap();
    assert_eq!(recovery.before, Before::Killed);
    assert!(recovery.last_seen_at.is_some() && recovery.rebooted_at.is_none(), "{recovery:?}");
    let became: Vec<(&str, Became)> =
        recovery.jobs.iter().map(|job| (job.id.as_str(), job.became)).collect();
    let expected = [(&*kept, Became::WentOn), (&*ended, Became::Ended), (&*lost, Became::Lost)];
    assert_eq!(became, expected);
    assert_eq!(recovery.n_waiting, 2, "{held} and {pending}");
    let ran = cluster.gpool(["doctor"]);
    let of_lost = format!("job {lost}: its shepherd process was killed");
    let of_ended = format!("{ended} (exit 5)");
    let of_queue = "2 waiting jobs";
    says(&ran, &["was killed or failed", "1 job continued", &of_ended, &of_lost, of_queue]);
    assert!(!ran.out.contains("the machine was started"), "{ran:?}");
    let short =
        "took over 1 running job; 1 ended in the meantime; 1 was lost; 2 are waiting: gpool doctor";
    says(&cluster.gpool(["status"]), &[short]);
    says(&cluster.gpool(["show", &lost]), &["lost", "run it again: gpool retry", "gpool logs"]);
    says(&cluster.gpool(["why", &lost]), &["its shepherd process was killed"]);
    says(&cluster.gpool(["queue", "--state", "lost"]), &["its shepherd process"]);

    // A stopped server is distinguished from a killed one.
    cluster.down(&[]);
    cluster.up();
    let recovery = cluster.client().recovery().unwrap();
    assert_eq!((recovery.before, recovery.jobs.len()), (Before::Stopped, 2));
    let ran = cluster.gpool(["status"]);
    says(&ran, &["took over 2 running jobs; 1 is waiting\n"]);
    cluster.end_by(Signal::TERM);
    cluster.up();
    assert_eq!(cluster.client().recovery().unwrap().before, Before::Stopped);
    stays.open();
    assert_eq!(cluster.until_ended(&kept).run.exit_code, Some(5));
}

#[test]
fn up_reports_in_one_line_the_jobs_that_it_took_over() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &waits_at(&gate));
    until_begun(&cluster, &id);
    cluster.kill();
    let words = ["up", "--devices", "none", "--name", "lab1"];
    says(&cluster.gpool(words), &["recovered", "took over 1 running job: gpool doctor"]);
    assert_eq!(cluster.gpool(["down"]).code, 0);
    gate.open();
    until_end_is_known(&cluster, &id);
    let ran = cluster.gpool(words);
    says(&ran, &["1 ended in the meantime\n"]);
    assert_eq!(cluster.gpool(["down"]).code, 0);
    // After that there is nothing to report.
    let ran = cluster.gpool(words);
    let is_quiet = ran.out.contains("no jobs of an earlier") && !ran.out.contains("recovered");
    assert!(is_quiet, "{ran:?}");
    assert_eq!(cluster.gpool(["down"]).code, 0);
    until_so("no process is left", || cluster.processes().is_empty());
}

#[test]
fn a_server_does_not_become_another_node_while_jobs_run() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &waits_at(&gate));
    until_begun(&cluster, &id);
    cluster.kill();
    let words = ["up", "--devices", "none", "--name", "other"];
    let ran = cluster.gpool(words);
    ran.refused(1, &["1 job runs on node lab1", "would have node other", "--name lab1"]);
    cluster.up();
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(5));
    // Without running jobs the node may get another name.
    cluster.down(&[]);
    cluster.gpool(words).ok();
    assert_eq!(cluster.gpool(["run", "--", "true"]).code, 0);
    assert_eq!(cluster.gpool(["down"]).code, 0);
    until_so("no process is left", || cluster.processes().is_empty());
}

/// The server under another boot ID, as after a restart of the machine.
fn rebooted(cluster: &Cluster) -> Option<Running> {
    let boot_id = cluster.path("boot_id");
    std::fs::write(&boot_id, "00000000-0000-4000-8000-000000000000\n").unwrap();
    let own = cluster.command();
    let mut command = Command::new("unshare");
    let line = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id && exec {} up --foreground \
         --devices none --name lab1",
        boot_id.display(),
        env!("CARGO_BIN_EXE_gpool")
    );
    command.args(["--mount", "sh", "-c", &line]).env_clear().current_dir(cluster.work());
    command.envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let probe = Command::new("unshare").args(["--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        return None;
    }
    Some(Running::start(&mut command, None))
}

#[test]
fn jobs_lost_in_a_restart_of_the_machine_are_reported_with_its_time() {
    if !is_root() {
        return skip("only root can simulate a restart of the machine");
    }
    let mut cluster = Cluster::new("none");
    let lost = cluster.sh(&[], "echo begun; sleep 1000");
    until_begun(&cluster, &lost);
    cluster.submit(["--hold", "--", "true"]);
    // The shepherd first, or it would see the job's end.
    let shepherd = cluster.shepherd(&lost);
    cluster.kill();
    kill_9(shepherd);
    cluster.processes().into_iter().for_each(kill_9);
    // A shepherd that is still dying would be taken over.
    until_so("its shepherd is gone", || {
        let stat = std::fs::read_to_string(format!("/proc/{shepherd}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    let Some(server) = rebooted(&cluster) else {
        return skip("there are no mount namespaces here");
    };
    let client = cluster.client();
    until_so("the server is ready", || {
        std::os::unix::net::UnixStream::connect(cluster.socket()).is_ok() && client.ready().is_ok()
    });
    let recovery = client.recovery().unwrap();
    assert_eq!(recovery.before, Before::MachineDown);
    assert!(recovery.rebooted_at.is_some());
    assert_eq!(cluster.job(&lost).run.cause.as_deref(), Some("rebooted"));
    let went_down = "the machine went down";
    let why = "the machine was restarted while it ran";
    says(&cluster.gpool(["doctor"]), &[went_down, "the machine was started at", why]);
    says(&cluster.gpool(["status"]), &["1 was lost to the reboot at", "gpool doctor"]);
    assert_eq!(cluster.gpool(["down"]).code, 0);
    assert_eq!(server.end().code, 0);
}

#[test]
fn job_numbers_that_a_restore_skips_are_reported() {
    let cluster = Cluster::new("none");
    cluster.submit(["--hold", "--", "true"]);
    let file = cluster.path("backup");
    cluster.gpool(["backup", file.to_str().unwrap()]).ok();
    let mut other = Cluster::unstarted(&["--devices", "none"]);
    other.gpool(["restore", file.to_str().unwrap()]).ok();
    other.up();
    assert_eq!(other.client().recovery().unwrap().before, Before::Restored);
    let words = ["restored from a backup", "1,000,000 are skipped"];
    says(&other.gpool(["doctor"]), &words);
    says(&other.gpool(["status"]), &["1 is waiting: gpool doctor"]);
}

#[test]
fn a_run_that_a_restored_store_does_not_know_is_ended_and_reported() {
    let mut cluster = Cluster::new("none");
    let id = cluster.sh(&["--hold"], "echo begun; sleep 1000");
    let file = cluster.path("backup");
    cluster.gpool(["backup", file.to_str().unwrap()]).ok();
    cluster.gpool(["release", &id]).ok();
    until_begun(&cluster, &id);
    let shepherd = cluster.shepherd(&id);
    cluster.kill();
    for name in ["store.db", "store.db-wal", "store.db-shm", "mark", "lock"] {
        // Not all of these files exist.
        let _ = std::fs::remove_file(cluster.state().join(name));
    }
    std::fs::remove_dir_all(cluster.state().join("blobs")).unwrap();
    cluster.gpool(["restore", file.to_str().unwrap()]).ok();
    cluster.up();
    assert_eq!(cluster.client().recovery().unwrap().unexpected, [format!("{id}#1")]);
    says(&cluster.gpool(["doctor"]), &["found and ended unknown runs", &format!("{id}#1")]);
    until_so("it is ended", || !std::path::Path::new(&format!("/proc/{shepherd}")).exists());
    assert_eq!(cluster.job(&id).state.as_str(), "held");
    cluster.gpool(["release", &id]).ok();
    // With a new attempt number, since the unknown run has left its output.
    until_so("it runs again", || cluster.stdout_of(&format!("{id}#2")).starts_with("begun"));
    assert_eq!(cluster.gpool(["logs", &format!("{id}#1")]).ok(), "begun\n");
}

#[test]
fn a_restored_store_ends_a_job_that_was_changed_after_the_backup() {
    let mut cluster = Cluster::new("sim:2xA100-40G");
    let job = |cluster: &Cluster| {
        let id = cluster.submit(["-g", "1", "-t", "1h", "--", "sleep", "1000"]);
        cluster.until_is(&id, "running");
        id
    };
    let (extended, paused, stuck) = (job(&cluster), job(&cluster), cluster.sh(&[], "sleep 1000"));
    cluster.until_is(&stuck, "running");
    let file = cluster.path("backup");
    cluster.gpool(["backup", file.to_str().unwrap()]).ok();
    // One round more than the second restore could make up for if it counted from the backup.
    for round in 0..2 {
        cluster.gpool(["extend", &extended, "+1h"]).ok();
        cluster.gpool(["pause", &paused]).ok();
        cluster.until_is(&paused, "paused");
        cluster.gpool(["extend", &paused, "+1h"]).ok();
        let newer = cluster.sh(&[], "echo begun; sleep 1000");
        until_begun(&cluster, &newer);
        assert_eq!(cluster.down(&[]).code, 0);
        cluster.gpool(["restore", "--put-aside", file.to_str().unwrap()]).ok();
        cluster.up();
        let recovery = cluster.client().recovery().unwrap();
        let went_on: Vec<_> = recovery.that(Became::WentOn).map(|job| job.id.as_str()).collect();
        assert_eq!(went_on, [&extended, &paused, &stuck], "round {round}");
        assert_eq!(recovery.unexpected, [format!("{newer}#1")]);
        // Its processes run, as in the store.
        cluster.until_is(&paused, "running");
    }
    cluster.gpool(["cancel", &extended]).ok();
    assert_eq!(cluster.until_ended(&extended).state.as_str(), "cancelled");
    // A shepherd that was stopped by a signal still ends its job.
    let shepherd = i32::try_from(cluster.shepherd(&stuck)).unwrap();
    let shepherd = rustix::process::Pid::from_raw(shepherd).unwrap();
    rustix::process::kill_process(shepherd, Signal::STOP).unwrap();
    let ran = cluster.down(&["--now"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    says(&ran, &["ending 2 jobs", "no job is running"]);
}

#[test]
fn without_a_server_the_queue_lists_jobs_that_go_on() {
    let mut cluster = Cluster::new("none");
    let none = Cluster::unstarted(&[]);
    let ran = none.gpool(["queue"]);
    ran.refused(3, &["GP0301", "no job that this user can see"]);
    let gate = Gate::new(&cluster, "gate");
    let runs = cluster.sh(&[], &waits_at(&gate));
    let ended = cluster.sh(&[], &waits_at(&gate));
    until_begun(&cluster, &runs);
    until_begun(&cluster, &ended);
    let asleep = cluster.sh(&["--stdout", "own.txt"], "echo begun >&2; sleep 1000");
    until_so("it has begun", || !cluster.gpool(["logs", "--stderr", &asleep]).out.is_empty());
    cluster.kill();
    gate.open();
    let done = |id: &str| {
        let text = std::fs::read_to_string(stdout_file(&cluster, id)).unwrap();
        text.ends_with("done\n")
    };
    until_so("one is done", || done(&runs) || done(&ended));
    let (ended, runs) = if done(&ended) { (ended, runs) } else { (runs, ended) };
    until_end_is_known(&cluster, &ended);
    let ran = cluster.gpool(["queue"]);
    let path = stdout_file(&cluster, &runs);
    ran.refused(3, &["GP0301", "2 jobs run without it; the next server takes over"]);
    assert!(has_row(&ran, &runs, "runs"), "{ran:?}");
    says(&ran, &[path.to_str().unwrap(), "none stored"]);
    let ran = cluster.gpool(["queue", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (3, ""), "{ran:?}");
    let document: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    let left = document["error"]["without_server"].as_array().unwrap();
    let of = |id: &str| left.iter().find(|job| job["id"] == *id).unwrap();
    assert_eq!((&of(&runs)["state"], of(&runs)["pid"].is_u64()), (&"runs".into(), true));
    assert_eq!(of(&ended)["state"], "ended, exit 5");
    assert_eq!(of(&runs)["stdout"], path.to_str().unwrap());
    // Other commands say where to look.
    for words in [&["status"][..], &["gpus"], &["show", &runs], &["why", &runs], &["wait", &runs]] {
        cluster.gpool(words).refused(3, &["GP0301", "2 jobs run without it: gpool queue"]);
    }
    says(&cluster.gpool(["doctor"]), &["run without it"]);
    // A state folder in another place is found by its running jobs, or by its name.
    let elsewhere = |words: &[&str]| {
        let mut command = cluster.command();
        Running::start(command.env_remove("GPOOL_STATE_DIR").args(words), None).end()
    };
    let ran = elsewhere(&["queue"]);
    assert!(has_row(&ran, &runs, "runs"), "{ran:?}");
    let other = none.path("api.sock");
    let ran = elsewhere(&["queue", "--server", other.to_str().unwrap()]);
    assert!(!has_row(&ran, &runs, "runs"), "jobs of another server: {ran:?}");
    let folder = cluster.state();
    let words = ["queue", "--state-dir", folder.to_str().unwrap()];
    let ran = elsewhere(&words);
    assert!(has_row(&ran, &runs, "runs") && has_row(&ran, &ended, "ended, exit 5"), "{ran:?}");
    cluster.up();
    assert_eq!(cluster.gpool(["queue"]).code, 0);
    gate.open();
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(5));
}

#[test]
fn without_a_server_logs_come_from_disk() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.submit(["-J", "named", "--", "sh", "-c", &waits_at(&gate)]);
    until_begun(&cluster, &id);
    cluster.kill();
    let ran = cluster.gpool(["logs", &id]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "begun\n"), "{ran:?}");
    says(&ran, &["this is the output of job", "(runs)", "GP0301"]);
    assert_eq!(cluster.gpool(["logs", &id, "--tail", "0"]).out, "");
    assert_eq!(cluster.gpool(["logs", &format!("{id}#1")]).out, "begun\n");
    cluster.gpool(["logs", "99"]).refused(3, &["has no output of job 99", "--state-dir"]);
    cluster.gpool(["logs", "named"]).refused(3, &["give the job by its ID"]);
    let followed = cluster.start(["logs", "-f", &id]);
    followed.until_says("begun");
    cluster.up();
    followed.until_says("the server answers again");
    gate.open();
    let ran = followed.end();
    assert_eq!((ran.code, ran.out.as_str()), (0, "begun\ndone\n"), "{ran:?}");
    // A job that ends while no server runs has ended for a client that follows it too.
    let id = cluster.sh(&[], &waits_at(&gate));
    until_begun(&cluster, &id);
    cluster.kill();
    let followed = cluster.start(["logs", "-f", &id]);
    followed.until_says("begun");
    gate.open();
    let ran = followed.end();
    assert_eq!((ran.code, ran.out.as_str()), (3, "begun\ndone\n"), "{ran:?}");
}

#[test]
fn waiting_commands_report_the_absence_and_continue() {
    let mut cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let run = cluster.start(["run", "--", "sh", "-c", &waits_at(&gate)]);
    run.until_says("begun");
    let waiting = [
        cluster.start(["wait", "1"]),
        cluster.start(["logs", "-f", "1"]),
        cluster.start(["logs", "-f", "--tail", "1", "1"]),
        cluster.start(["events", "-f", "1"]),
    ];
    let watching = cluster.start(["queue", "--watch=1s"]);
    watching.until_says("\"id\":\"1\"");
    for logs in &waiting[1..3] {
        logs.until_says("begun");
    }
    // The event streams of run, wait and events.
    until_so("all listen", || n_asked(&cluster, "/api/v1/events") >= 3);
    cluster.kill();
    let all = || waiting.iter().chain([&run, &watching]);
    all().for_each(|one| one.until_says("no server answers"));
    cluster.up();
    all().for_each(|one| one.until_says("the server answers again"));
    gate.open();
    let ran = run.end();
    assert_eq!((ran.code, ran.out.as_str()), (5, "begun\ndone\n"), "{ran:?}");
    assert_eq!(ran.err.matches("no server answers").count(), 1, "{ran:?}");
    watching.until_says("\"gone\":\"1\"");
    watching.signal(Signal::TERM);
    let [wait, logs, tail, events] = waiting.map(Running::end);
    assert_eq!(wait.code, 5, "{wait:?}");
    assert_eq!((logs.code, logs.out.as_str()), (0, "begun\ndone\n"), "{logs:?}");
    assert_eq!((tail.code, tail.out.as_str()), (0, "begun\ndone\n"), "{tail:?}");
    assert_eq!(events.code, 0, "{events:?}");
    assert_eq!(watching.end().code, 143);
}

/// The number of answered requests of a route.
pub fn n_asked(cluster: &Cluster, route: &str) -> u64 {
    let text = cluster.client().metrics().unwrap();
    let label = format!("route=\"{route}\"");
    let lines = text.lines().filter(|line| line.starts_with("gpool_http_requests_total"));
    let counts = lines.filter(|line| line.contains(&label));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn verify_lists_its_checks_on_the_live_store_and_on_a_copy() {
    let mut cluster = Cluster::new("none");
    for _ in 0..20 {
        cluster.submit(["--hold", "--", "true"]);
    }
    let id = cluster.sh(&[], "true");
    cluster.until_ended(&id);
    let checked = |ran: Ran| {
        says(&ran, &["is sound", "records", "entries of the journal", "1 ended job", "files"]);
    };
    checked(cluster.gpool(["verify"]));
    assert_eq!(
        cluster.until_ended(&cluster.sh(&[], "true")).run.exit_code,
        Some(0),
        "the server works meanwhile"
    );
    let backup = cluster.path("backup");
    cluster.gpool(["backup", backup.to_str().unwrap()]).ok();
    assert!(cluster.gpool(["verify", backup.to_str().unwrap()]).ok().contains("2 ended jobs"));
    cluster.down(&[]);
    let copy = cluster.path("copy");
    let copied = Command::new("cp").arg("-a").arg(cluster.state()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let json = cluster.gpool(["verify", copy.to_str().unwrap(), "--json"]).json();
    assert_eq!((&json["sound"], &json["archive"]), (&true.into(), &2.into()), "{json}");
    assert!(json["records"].as_u64().unwrap() > 20 && json["journal"].as_u64().unwrap() > 20);
    cluster.gpool(["verify", "no-such-folder"]).refused(1, &["no-such-folder", "GP0224"]);
}

#[test]
fn a_store_that_changes_while_it_is_verified_is_sound() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let line = "{\"command\":[\"true\"],\"gpus\":\"1\"}\n";
    let lines = line.repeat(400);
    cluster.gpool_reading(["submit", "--from-jsonl", "-"], lines.as_bytes()).ok();
    let mut n_verified = 0;
    until_so("all have ended", || {
        says(&cluster.gpool(["verify"]), &["is sound"]);
        n_verified += 1;
        cluster.client().status().unwrap().jobs.is_empty()
    });
    assert!(n_verified > 1, "the store did not change meanwhile");
}

#[test]
fn other_users_see_their_own_jobs_while_no_server_answers() {
    let Some(mut cluster) = users::cluster() else { return };
    let roots = cluster.sh(&[], "echo begun; sleep 1000");
    until_begun(&cluster, &roots);
    let words = ["submit", "--", "sh", "-c", "echo begun; sleep 1000"];
    let theirs = users::as_nobody(&cluster, &words).ok().trim().to_owned();
    until_begun(&cluster, &theirs);
    cluster.kill();
    let ran = users::as_nobody(&cluster, &["queue"]);
    ran.refused(3, &["1 job runs without it"]);
    assert!(has_row(&ran, &theirs, "runs") && !has_row(&ran, &roots, "runs"), "{ran:?}");
    says(&ran, &["can't see jobs of other users"]);
    let ran = users::as_nobody(&cluster, &["logs", &theirs]);
    assert_eq!((ran.code, ran.out.as_str()), (3, "begun\n"), "{ran:?}");
    let ran = users::as_nobody(&cluster, &["logs", &roots]);
    ran.refused(3, &["can't read"]);
    says(&cluster.gpool(["queue"]), &["2 jobs run without it"]);
    let ran = users::as_nobody(&cluster, &["debug", "dump", "-o", "-"]);
    let dump = ran.json();
    assert!(dump["missing"]["journal"].is_string(), "{}", dump["missing"]);
    cluster.up();
    let ran = users::as_nobody(&cluster, &["doctor"]);
    says(&ran, &["2 jobs continued"]);
}
