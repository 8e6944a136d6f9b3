//! Working folders and results that travel with jobs: `--upload` and `--download`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use gpool_model::job::JobState;
use rustix::process::Signal;

use crate::harness::{Cluster, Gate, Machine, is_root, skip, until_so};
use crate::kill::points::{By, POINTS, armed};
use crate::users::{self, NOBODY};

/// More bytes than one part has.
const LONG: usize = 5 << 20;

/// A folder for `--upload` with this content.
fn folder(cluster: &Cluster, files: &[(&str, &str)]) -> PathBuf {
    let root = cluster.work().join("project");
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder.
fn n_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|it| if it.path().is_dir() { n_files(&it.path()) } else { 1 }).sum()
}

fn until_no_folder(work: &Path) {
    until_so("the working folders are removed", || n_files(work) == 0);
}

#[test]
fn a_job_runs_in_a_copy_of_the_folder_and_its_results_come_back() {
    let cluster = Cluster::new("none");
    let root = folder(&cluster, &[("in.txt", "41\n"), ("lib/add.sh", "echo $(($1 + 1))\n")]);
    let line = "test \"$PWD\" = \"$GPOOL_WORK_DIR\" && mkdir -p out && \
                sh lib/add.sh $(cat in.txt) > out/sum && echo changed > in.txt && exit 3";
    let flags = ["--upload", "project", "--download", "out"];
    let id = cluster.sh(&flags, line);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(3), "{}", cluster.stdout_of(&id));
    let fetched = cluster.gpool(["download", &id, "results"]);
    assert!(fetched.err.contains(&format!("results of job {id}: 1 file, 3 B")), "{fetched:?}");
    fetched.ok();
    assert_eq!(read(cluster.work().join("results/out/sum")), "42\n");
    assert_eq!(n_files(&cluster.work().join("results")), 1);
    assert_eq!(read(root.join("in.txt")), "41\n", "the job has a copy");
    until_no_folder(&cluster.state().join("work"));

    // Equal files stay, and other content is not replaced silently.
    let again = cluster.gpool(["download", &id, "results"]);
    assert!(again.err.contains("1 had this content already"), "{again:?}");
    fs::write(cluster.work().join("results/out/sum"), "mine").unwrap();
    let refused = cluster.gpool(["download", &id, "results"]);
    refused.refused(7, &["GP0236", "results/out/sum", "--force", "nothing was written"]);
    assert_eq!(read(cluster.work().join("results/out/sum")), "mine");
    cluster.gpool(["download", &id, "results", "--force"]).ok();
    assert_eq!(read(cluster.work().join("results/out/sum")), "42\n");

    // `run` fetches them by itself, into the folder of the command.
    let ran = cluster.gpool([
        "run",
        "--upload",
        "project",
        "--download",
        "*.log",
        "--",
        "sh",
        "-c",
        "echo 1 > a.log",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(read(cluster.work().join("a.log")), "1\n");
}

#[test]
fn a_repeated_upload_sends_only_changes() {
    let cluster = Cluster::new("none");
    let root = folder(&cluster, &[("a", "first\n"), ("big", &"x".repeat(LONG))]);
    let run =
        || cluster.gpool(["run", "--upload", "project", "--", "sh", "-c", "cat a; wc -c big"]);
    let first = run();
    assert!(first.err.contains("uploaded 5 MiB of 5 MiB in 2 files"), "{first:?}");
    let second = run();
    assert!(second.err.contains("uploaded 0 B of 5 MiB"), "{second:?}");
    fs::write(root.join("a"), "second\n").unwrap();
    let third = run();
    assert_eq!(third.out, format!("second\n{LONG} big\n"));
    let sent = third.err.lines().find(|line| line.starts_with("uploaded ")).unwrap();
    assert!(!sent.contains("uploaded 5") && !sent.contains("uploaded 0 B"), "{sent}");
    // The same from a directive, and from a variable.
    let script = cluster.work().join("job.sh");
    fs::write(&script, "#!/bin/sh\n# GPOOL --upload project\ncat a\n").unwrap();
    assert_eq!(cluster.gpool(["run", "job.sh"]).out, "second\n");
    let mut command = cluster.command();
    command.env("GPOOL_SUBMIT_UPLOAD", "project").args(["run", "--", "cat", "a"]);
    assert_eq!(crate::harness::Running::start(&mut command, None).end().out, "second\n");
}

#[test]
fn what_may_not_travel_is_named() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let settings = cluster.path("gpool.toml");
    fs::write(&settings, "upload_max = \"1M\"\n").unwrap();
    cluster.variables = vec![("GPOOL_CONFIG".to_owned(), settings.display().to_string())];
    cluster.up();
    let root = folder(&cluster, &[("a", "1"), ("data/x", &"x".repeat(LONG)), ("data/y", "y")]);
    let submit = |flags: &[&str]| {
        cluster.gpool(["submit"].iter().chain(flags).copied().chain(["--", "cat", "a"]))
    };
    submit(&["--upload", "project"]).refused(2, &["GP0238", "data with 5 MiB", ".gpoolignore"]);
    fs::write(root.join(".gpoolignore"), "/data\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("link")).unwrap();
    let done = submit(&["--upload", "project"]);
    assert!(done.err.contains("not uploaded: link: the symbolic link leaves"), "{done:?}");
    done.ok();
    submit(&["--upload", "nowhere"]).refused(2, &["GP0237", "nowhere"]);
    submit(&["--upload", ""]).refused(2, &["--upload"]);
    submit(&["--download", "/etc/shadow"]).refused(2, &["--download", "relative"]);
    submit(&["--download", "../x"]).refused(2, &["--download", ".."]);
    submit(&["--upload", "project", "--setup", "true"]).refused(2, &["setup"]);
    let name = std::ffi::OsStr::from_bytes(b"a\xff");
    fs::write(root.join(name), "x").unwrap();
    submit(&["--upload", "project"]).refused(2, &["GP0237", "not UTF-8"]);
}

#[test]
fn a_job_without_results_says_so() {
    let cluster = Cluster::new("none");
    let gate = Gate::new(&cluster, "gate");
    let plain = cluster.sh(&[], "true");
    cluster.until_ended(&plain);
    cluster.gpool(["download", &plain]).refused(6, &["GP0609", "without --download"]);
    let waits = cluster.sh(&["--download", "out"], &gate.line());
    cluster.gpool(["download", &waits]).refused(6, &["GP0609", "it has not ended"]);
    gate.open();
    cluster.until_ended(&waits);
    // Nothing matches: that is a result.
    let none = cluster.gpool(["download", &waits, "none"]);
    assert!(none.err.contains("0 files"), "{none:?}");
    none.ok();
    cluster.gpool(["download", "4711"]).refused(6, &["GP0601"]);
    let array = cluster.sh(&["--array", "0-1", "--download", "x"], "echo $GPOOL_ARRAY_INDEX > x");
    cluster.until_ended(&array);
    cluster.gpool(["download", &array]).refused(6, &["GP0609", &format!("{array}.0")]);
    cluster.gpool(["download", &format!("{array}.1")]).ok();
    assert_eq!(read(cluster.work().join("x")), "1\n");
}

#[test]
fn another_user_gets_no_file() {
    let Some(cluster) = users::cluster() else { return };
    folder(&cluster, &[("secret", "4711\n")]);
    let id = cluster.sh(&["--upload", "project", "--download", "secret"], "true");
    cluster.until_ended(&id);
    cluster.gpool(["download", &id, "own"]).ok();
    let upload = cluster.job(&id).request.upload.unwrap();
    let other = |words: &[&str]| users::as_user(&cluster, NOBODY, words);
    other(&["download", &id, "/tmp"]).refused(5, &["GP0501"]);
    // The name of a folder is no proof that the user has it.
    let body = serde_json::json!({"command": ["cat", "secret"], "upload": upload}).to_string();
    let lines = cluster.work().join("jobs.jsonl");
    fs::write(&lines, format!("{body}\n")).unwrap();
    let refused = other(&["submit", "--from-jsonl", lines.to_str().unwrap()]);
    refused.refused(2, &["you have not sent the folder"]);
    assert!(!other(&["show", &id]).out.contains(&upload));
    // Its own jobs run in folders of its own.
    let run = other(&["run", "--upload", "project", "--download", "id", "--", "sh", "-c", "id -u"]);
    assert_eq!((run.code, run.out.as_str()), (0, "65534\n"), "{run:?}");
}

#[test]
fn jobs_on_other_machines_have_the_folder_and_send_results() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "sim:2xA100-80G");
    machine.join("lab2");
    folder(&cluster, &[("in", "7\n"), ("big", &"x".repeat(LONG))]);
    let line = "cat in big > out; echo $GPOOL_NODE";
    let id = cluster.sh(&["--gpus", "1", "--upload", "project", "--download", "out"], line);
    assert_eq!(cluster.until_ended(&id).state, JobState::Succeeded, "{}", cluster.stdout_of(&id));
    assert_eq!(cluster.stdout_of(&id), "lab2\n");
    cluster.gpool(["download", &id, "results"]).ok();
    assert_eq!(fs::metadata(cluster.work().join("results/out")).unwrap().len(), LONG as u64 + 2);
    until_no_folder(&machine.path("work"));

    // The agent dies while the job runs: the next one sends its results.
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; cp in out", gate.line());
    let id = cluster.sh(&["--gpus", "1", "--upload", "project", "--download", "out"], &line);
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    machine.kill_agent();
    gate.open();
    machine.start(&[]);
    machine.until_connected("lab2");
    cluster.until_ended(&id);
    cluster.gpool(["download", &id, "later"]).ok();
    assert_eq!(read(cluster.work().join("later/out")), "7\n");
    until_no_folder(&machine.path("work"));

    // Each task of a gang has a folder of its own.
    let line = "echo $GPOOL_RANK > rank";
    let flags = ["--gpus", "1", "--tasks", "2", "--upload", "project", "--download", "rank"];
    let id = cluster.sh(&flags, line);
    cluster.until_ended(&id);
    cluster.gpool(["download", &id, "gang"]).ok();
    for rank in 0..2 {
        let path = cluster.work().join(format!("gang/rank-{rank}/rank"));
        assert_eq!(read(path), format!("{rank}\n"));
    }
}

#[test]
fn a_server_that_was_away_gets_the_results_later() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut cluster = Cluster::with(&["--devices", "none", "--listen", &address.to_string()]);
    let gate = Gate::new(&cluster, "gate");
    let id = {
        let cluster = &cluster;
        folder(cluster, &[("in", "7\n")]);
        let mut machine = Machine::new(cluster, "lab2", "sim:1xA100-80G");
        machine.join("lab2");
        let line = format!("echo begun; {}; cp in out", gate.line());
        let id = cluster.sh(&["--gpus", "1", "--upload", "project", "--download", "out"], &line);
        until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
        machine.kill_agent();
        id
    };
    cluster.kill();
    gate.open();
    cluster.up();
    let mut machine = Machine::new(&cluster, "lab2", "sim:1xA100-80G");
    machine.start(&[]);
    machine.until_connected("lab2");
    cluster.until_ended(&id);
    cluster.gpool(["download", &id, "results"]).ok();
    assert_eq!(read(cluster.work().join("results/out")), "7\n");
}

#[test]
fn killed_at_each_point_a_folder_and_its_results_arrive_whole() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    for point in POINTS.iter().filter(|point| point.by == By::Files) {
        let mut cluster = Cluster::unstarted(&["--devices", "none"]);
        let killed = armed(&mut cluster, point, 1, "point");
        cluster.up();
        folder(&cluster, &[("in", "7\n"), ("big", &"x".repeat(LONG))]);
        let flags = ["submit", "--upload", "project", "--download", "in", "--download", "out"];
        // It waits for the server, or is repeated if it could not begin.
        let submitted = cluster.start(flags.iter().copied().chain([
            "--",
            "sh",
            "-c",
            "(echo 4711; cat big; echo end) > out",
        ]));
        until_so(point.name, || cluster.has_died());
        assert!(killed.exists(), "{}: {}", point.name, cluster.log());
        cluster.variables.clear();
        cluster.up();
        let id = submitted.end().ok().trim().to_owned();
        let job = cluster.until_ended(&id);
        assert_eq!(job.state, JobState::Succeeded, "{}: {job:?}", point.name);
        cluster.gpool(["download", &id, "results"]).ok();
        let out = fs::read(cluster.work().join("results/out")).unwrap();
        assert_eq!((out.len(), &out[LONG + 5..]), (LONG + 9, &b"end\n"[..]), "{}", point.name);
        assert_eq!(read(cluster.work().join("results/in")), "7\n", "{}", point.name);
        until_no_folder(&cluster.state().join("work"));
        let half = fs::read_dir(cluster.state().join("objects/tmp")).unwrap().count();
        assert_eq!(half, 0, "{}", point.name);
    }
}

#[test]
fn an_upload_goes_on_after_the_command_was_killed() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    // The second bundle never gets an answer.
    let stuck = "files-object-stored=1*off->pause".to_owned();
    cluster.variables = vec![("GPOOL_STUCKPOINT".to_owned(), stuck)];
    cluster.up();
    folder(&cluster, &[("a", &"a".repeat(LONG)), ("b", &"b".repeat(LONG))]);
    let flags = ["submit", "--upload", "project", "--", "wc", "-c", "a", "b"];
    let killed = cluster.start(flags);
    let objects = cluster.state().join("objects");
    until_so("some objects are stored", || n_files(&objects) >= 3);
    killed.signal(Signal::KILL);
    killed.end();
    let n_stored = n_files(&objects);
    cluster.kill();
    cluster.variables.clear();
    cluster.up();
    let done = cluster.gpool(flags);
    assert!(!done.err.contains("uploaded 10 MiB of"), "{done:?}");
    let id = done.ok().trim().to_owned();
    assert_eq!(cluster.until_ended(&id).state, JobState::Succeeded);
    assert!(n_files(&objects) > n_stored);
}

#[test]
fn a_node_without_space_is_left_and_the_job_says_why() {
    if !is_root() {
        return skip("only root can mount a small file system");
    }
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let small = cluster.path("full");
    fs::create_dir_all(&small).unwrap();
    if !crate::disk::mount_at(&small, "size=12m,mode=711") {
        return;
    }
    let mut machine = Machine::new(&cluster, "full", "sim:1xA100-80G");
    machine.join("full");
    fs::write(small.join("ballast"), vec![1; 9 << 20]).unwrap();
    folder(&cluster, &[("big", &"x".repeat(LONG))]);
    let id = cluster.sh(&["--gpus", "1", "--upload", "project"], "wc -c big");
    cluster.until_is(&id, "held");
    let why = cluster.why(&id);
    assert!(why.contains("its disk is full") && why.contains("gpool release"), "{why}");
    until_no_folder(&small.join("work"));
    fs::remove_file(small.join("ballast")).unwrap();
    cluster.gpool(["release", &id]).ok();
    assert_eq!(cluster.until_ended(&id).state, JobState::Succeeded);
    assert_eq!(cluster.stdout_of(&id), format!("{LONG} big\n"));
    drop(machine);
}
