//! Secrets of users: their jobs find them as files, and nothing else has their values.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use gpool_model::job::JobState;

use crate::containers::{Lab, registry};
use crate::harness::{
    Cluster, Gate, Machine, Ran, Running, Tty, is_root, kill_9, program, until, until_so,
};
use crate::http::Http;
use crate::users;

const CANARY: &str = "canary-5e1f00d";

fn set(cluster: &Cluster, name: &str, value: &str) -> Ran {
    cluster.gpool_reading(["secret", "set", name], value.as_bytes())
}

/// The folder with the secrets of tasks of an agent.
fn folder(state: &Path) -> PathBuf {
    state.join("task-secrets")
}

fn until_none_is_left(state: &Path) {
    until_so("the secrets are removed", || !folder(state).exists());
}

/// A job that copies its secret TOKEN, and waits.
fn copies(cluster: &Cluster, gate: &Gate) -> String {
    let line = format!("cp $GPOOL_SECRETS/TOKEN copy; echo begun; {}", gate.line());
    let id = cluster.sh(&["--secret", "TOKEN"], &line);
    until_so("it has begun", || cluster.gpool(["logs", &id]).out == "begun\n");
    id
}

fn copy_of(cluster: &Cluster) -> String {
    let copy = cluster.work().join("copy");
    let text = std::fs::read_to_string(&copy).unwrap();
    std::fs::remove_file(copy).unwrap();
    text
}

/// Every file below a folder that has the canary.
fn files_with_it(folder: &Path) -> String {
    // Not as an argument: other tests look for it in the lists of processes.
    let mut grep = std::process::Command::new("grep");
    grep.args(["-rlsaF", "-f", "-"]).arg(folder);
    Running::start(&mut grep, Some(CANARY.into())).end().out
}

/// What processes show to others and to their own user, with the canary.
fn processes_with_it() -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|it| it.path());
    let files = processes.flat_map(|path| ["cmdline", "environ"].map(|name| path.join(name)));
    let has_it = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(CANARY)
    };
    files.filter(has_it).collect()
}

#[test]
fn a_job_finds_its_secrets_and_no_other_place_has_their_values() {
    let mut cluster = Cluster::new("sim:1xA100-80G");
    let made = set(&cluster, "TOKEN", &format!("{CANARY}\n"));
    assert!(made.err.contains("secret TOKEN is set (14 bytes)"), "{made:?}");
    made.ok();
    let key = cluster.path("key");
    std::fs::write(&key, [&[0, 255, b'\n'][..], CANARY.as_bytes(), b"\n"].concat()).unwrap();
    let words = ["secret", "set", "KEY", "--from-file", key.to_str().unwrap(), "--json"];
    assert_eq!(cluster.gpool(words).json()["bytes"], 18);
    let listed = cluster.gpool(["secret", "list", "-o", "json"]);
    assert!(!listed.out.contains(CANARY));
    let listed = listed.json();
    assert_eq!(
        (&listed["items"][0]["name"], &listed["items"][1]["bytes"]),
        (&"KEY".into(), &14.into())
    );

    let gate = Gate::new(&cluster, "work/gate");
    let line = format!(
        "stat -c '%a %u' $GPOOL_SECRETS; cd $GPOOL_SECRETS; stat -c '%n %a %u %s' *; \
         cat TOKEN KEY > $OLDPWD/copy; echo begun; {}",
        gate.line()
    );
    let id = cluster.sh(&["--secret", "TOKEN", "--secret", "KEY"], &line);
    until_so("it has begun", || cluster.gpool(["logs", &id]).out.ends_with("begun\n"));
    let uid = rustix::process::geteuid().as_raw();
    let output = cluster.gpool(["logs", &id]).ok();
    assert_eq!(output, format!("700 {uid}\nKEY 400 {uid} 18\nTOKEN 400 {uid} 14\nbegun\n"));
    let copy = std::fs::read(cluster.work().join("copy")).unwrap();
    assert_eq!(copy, [CANARY.as_bytes(), &std::fs::read(&key).unwrap()].concat());

    // Nothing else: neither files, processes, answers, nor the audit log.
    let files = files_with_it(&cluster.state());
    assert!(files.lines().all(|it| Path::new(it).starts_with(folder(&cluster.state()))), "{files}");
    assert_eq!(files.lines().count(), 2, "{files}");
    assert_eq!(processes_with_it(), Vec::<PathBuf>::new());
    assert!(!cluster.log().contains(CANARY), "{}", cluster.log());
    let shown = cluster.gpool(["show", &id, "--json"]).json();
    assert_eq!(shown["items"][0]["request"]["secrets"][0], "TOKEN");
    let audit = cluster.gpool(["audit", "-o", "json"]).ok();
    assert!(audit.contains("secrets/TOKEN") && !audit.contains(CANARY), "{audit}");
    cluster.gpool(["debug", "dump", "-o", "dump.json"]).ok();
    let copy = cluster.work().join("copy").display().to_string();
    assert_eq!(files_with_it(&cluster.work()).trim(), copy);
    gate.open();
    assert_eq!(cluster.until_ended(&id).state, JobState::Succeeded);
    until_none_is_left(&cluster.state());
    // A restart changes nothing.
    cluster.down(&[]);
    cluster.up();
    let line = "cat $GPOOL_SECRETS/TOKEN > copy";
    let again = cluster.sh(&["--secret", "TOKEN"], line);
    cluster.until_ended(&again);
    assert_eq!(copy_of(&cluster), CANARY);
    assert_eq!(files_with_it(&cluster.state()), "");
    let key = std::fs::metadata(cluster.state().join("secrets.key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

#[test]
fn wrong_secrets_are_refused() {
    let cluster = Cluster::new("none");
    for name in ["", "-x", ".x", "a/b", "a b", "ä", &"n".repeat(101)] {
        let ran = cluster.gpool_reading(["secret", "set", "--", name], CANARY.as_bytes());
        ran.refused(2, &["GP0101", "1 to 100 letters"]);
        assert!(!ran.err.contains(CANARY), "{ran:?}");
    }
    // A value is never an argument.
    cluster.gpool(["secret", "set", "TOKEN", "value"]).refused(2, &["unexpected argument"]);
    set(&cluster, "TOKEN", "\n").refused(2, &["GP0101", "is empty"]);
    set(&cluster, "TOKEN", &"x".repeat((64 << 10) + 2)).refused(2, &["GP0102", "64 KiB"]);
    set(&cluster, "TOKEN", &"x".repeat(64 << 10)).ok();
    cluster
        .gpool(["secret", "set", "TOKEN", "--from-file", "none"])
        .refused(2, &["can't read none"]);
    cluster.gpool(["secret", "remove", "OTHER"]).refused(6, &["GP0610", "gpool secret list"]);
    let words = ["submit", "--secret", "OTHER", "--", "true"];
    cluster.gpool(words).refused(6, &["GP0610", "no secret \"OTHER\"", "gpool secret set OTHER"]);
    cluster.gpool(["submit", "--secret", "a/b", "--", "true"]).refused(2, &["1 to 100 letters"]);
    let words = ["submit", "--image-login", "TOKEN", "--", "true"];
    cluster.gpool(words).refused(2, &["image_login", "needs an image"]);
    let lines = "{\"command\":[\"true\"]}\n{\"command\":[\"true\"],\"secrets\":[\"OTHER\"]}\n";
    cluster
        .gpool_reading(["submit", "--from-jsonl", "-"], lines.as_bytes())
        .refused(6, &["GP0610", "line 2"]);
    assert_eq!(cluster.all_ids(), Vec::<String>::new());
    // The errors of the API have no part of a body.
    let http = Http::new(&cluster);
    for (body, code) in [
        (format!("\"{CANARY}\""), "GP0101"),
        (format!("{{\"value\": [\"{CANARY}\"]}}"), "GP0101"),
        (format!("{{\"base64\": \"{CANARY}\"}}"), "GP0101"),
        (format!("{{\"value\": \"{CANARY}"), "GP0104"),
        (format!("{{\"value\": \"{CANARY}\", \"base64\": \"\"}}"), "GP0101"),
        (format!("{{\"values\": \"{CANARY}\"}}"), "GP0103"),
    ] {
        let kind = [("content-type", "application/json")];
        let answer = http.send("PUT", "/api/v1/secrets/TOKEN", &kind, body.as_bytes());
        assert!(!answer.body.contains(CANARY), "{answer:?}");
        assert_eq!(answer.problem_code(), code, "{body}");
    }
    for n in 1..100 {
        set(&cluster, &format!("S{n}"), "x").ok();
    }
    set(&cluster, "S100", "x").refused(7, &["GP0524", "gpool secret remove"]);
    set(&cluster, "S99", "y").ok();
    cluster.gpool(["secret", "remove", "S99", "S98"]).ok();
    set(&cluster, "S100", "x").ok();
}

#[test]
fn a_typed_value_is_not_shown() {
    let cluster = Cluster::new("none");
    let mut tty = Tty::start(&cluster, &["secret", "set", "TOKEN"]);
    tty.until_shows("Value of TOKEN: ");
    until_so("the terminal is silent", || tty.is_raw());
    tty.types(&format!("{CANARY}\n"));
    assert_eq!(tty.end(), 0);
    assert!(!tty.seen.lock().unwrap().contains(CANARY));
    let listed = cluster.gpool(["secret", "list", "-o", "json"]).json();
    assert_eq!(listed["items"][0]["bytes"], 14);
    // A wrong name is refused before the value is typed.
    let mut tty = Tty::start(&cluster, &["secret", "set", "a/b"]);
    tty.until_shows("GP0101");
    assert_eq!(tty.end(), 2);
}

#[test]
fn a_start_finds_the_present_value_or_holds_the_job() {
    let mut cluster = Cluster::new("sim:1xA100-80G");
    set(&cluster, "TOKEN", "one").ok();
    let line = "cp $GPOOL_SECRETS/TOKEN copy";
    let submit = || cluster.sh(&["--hold", "--secret", "TOKEN"], line);
    let (changed, removed, damaged) = (submit(), submit(), submit());
    set(&cluster, "TOKEN", "two").ok();
    cluster.gpool(["release", &changed]).ok();
    assert_eq!(cluster.until_ended(&changed).state, JobState::Succeeded);
    assert_eq!(copy_of(&cluster), "two");
    cluster.gpool(["secret", "remove", "TOKEN"]).ok();
    cluster.gpool(["release", &removed]).ok();
    let why = |id: &str, words: &str| {
        until_so("it is held", || cluster.why(id).contains(words));
        assert_eq!(cluster.job(id).state.as_str(), "held");
    };
    why(&removed, "It is held: the user has no secret TOKEN; gpool release tries again");
    set(&cluster, "TOKEN", "three").ok();
    cluster.gpool(["release", &removed]).ok();
    assert_eq!(cluster.until_ended(&removed).state, JobState::Succeeded);
    assert_eq!(copy_of(&cluster), "three");

    // A damaged file is an error for those that need it.
    let uid = rustix::process::geteuid().as_raw();
    let file = cluster.state().join(format!("secrets/{uid}.TOKEN"));
    let bytes = std::fs::read(&file).unwrap();
    let key = cluster.state().join("secrets.key");
    for broken in [&bytes[..bytes.len() - 1], &bytes[..20], b"", b"\n\n"] {
        std::fs::write(&file, broken).unwrap();
        let listed = cluster.gpool(["secret", "list", "-o", "json"]).json();
        let fault = listed["items"][0]["fault"].as_str().unwrap().to_owned();
        assert!(fault.contains("is damaged, or secrets.key is not the key"), "{fault}");
    }
    assert!(cluster.gpool(["secret", "list"]).ok().contains("damaged"));
    cluster.gpool(["release", &damaged]).ok();
    why(&damaged, "can't be decrypted");
    std::fs::write(&file, &bytes).unwrap();
    std::fs::rename(&key, key.with_extension("away")).unwrap();
    assert!(cluster.gpool(["secret", "list"]).ok().contains("damaged"));
    std::fs::write(&key, "no key").unwrap();
    set(&cluster, "OTHER", "x").refused(1, &["GP0907", "is no key of secrets"]);
    std::fs::rename(key.with_extension("away"), &key).unwrap();
    cluster.gpool(["release", &damaged]).ok();
    assert_eq!(cluster.until_ended(&damaged).state, JobState::Succeeded);

    // A backup has the values, and not the key.
    let backup = cluster.path("backup");
    cluster.gpool(["backup", backup.to_str().unwrap()]).ok();
    cluster.down(&[]);
    std::fs::rename(cluster.state(), cluster.path("old")).unwrap();
    cluster.gpool(["restore", backup.to_str().unwrap()]).ok();
    cluster.up();
    assert!(cluster.gpool(["secret", "list"]).ok().contains("damaged"));
    let old = cluster.path("old/secrets.key");
    std::fs::copy(old, cluster.state().join("secrets.key")).unwrap();
    let again = cluster.sh(&["--secret", "TOKEN"], line);
    assert_eq!(cluster.until_ended(&again).state, JobState::Succeeded);
    assert_eq!(copy_of(&cluster), "three");
}

#[test]
fn secrets_are_removed_whatever_dies() {
    let mut cluster = Cluster::new("sim:1xA100-80G");
    let state = cluster.state();
    set(&cluster, "TOKEN", CANARY).ok();
    let gate = Gate::new(&cluster, "work/gate");
    let cut = copies(&cluster, &gate);
    kill_9(cluster.shepherd(&cut));
    assert_eq!(cluster.until_ended(&cut).state, JobState::Lost);
    until_none_is_left(&state);

    // The next agent finds what both left, and leaves what a living job has.
    let (cut, kept) = (copies(&cluster, &gate), copies(&cluster, &gate));
    let shepherd = cluster.shepherd(&cut);
    cluster.kill();
    kill_9(shepherd);
    assert_eq!(std::fs::read_dir(folder(&state)).unwrap().count(), 2);
    cluster.up();
    assert_eq!(cluster.until_ended(&cut).state, JobState::Lost);
    let left = until("one is removed", || {
        let all: Vec<_> = std::fs::read_dir(folder(&state)).unwrap().flatten().collect();
        (all.len() == 1).then(|| all[0].file_name().into_string().unwrap())
    });
    assert!(left.starts_with(&format!("{kept}#")), "{left}");
    // It ends without an agent.
    cluster.kill();
    gate.open();
    until_none_is_left(&state);
    cluster.up();
    assert_eq!(cluster.until_ended(&kept).state, JobState::Succeeded);
    assert_eq!(files_with_it(&state), "");
}

#[test]
fn no_user_has_the_secrets_of_another() {
    let Some(cluster) = users::cluster() else { return };
    set(&cluster, "TOKEN", CANARY).ok();
    let as_nobody = |words: &[&str]| users::as_nobody(&cluster, words);
    assert_eq!(as_nobody(&["secret", "list", "-o", "name"]).ok(), "");
    as_nobody(&["secret", "list", "--all"]).refused(5, &["GP0501", "only an admin"]);
    as_nobody(&["secret", "remove", "TOKEN"]).refused(6, &["GP0610"]);
    as_nobody(&["secret", "remove", "TOKEN", "--user", "root"]).refused(5, &["GP0501"]);
    as_nobody(&["submit", "--secret", "TOKEN", "--", "true"]).refused(6, &["GP0610"]);
    // Each has another value of the same name, and reaches no files of the other.
    let file = cluster.work().join("theirs");
    std::fs::write(&file, "theirs").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    as_nobody(&["secret", "set", "TOKEN", "--from-file", file.to_str().unwrap()]).ok();
    let gate = Gate::new(&cluster, "work/gate");
    let own = copies(&cluster, &gate);
    let theirs = folder(&cluster.state()).join(format!("{own}#1-0"));
    assert_eq!(std::fs::metadata(&theirs).unwrap().uid(), 0);
    let line = format!("cat $GPOOL_SECRETS/TOKEN; ls {0}; cat {0}/TOKEN", theirs.display());
    let ran = as_nobody(&["run", "--secret", "TOKEN", "--", "sh", "-c", &line]);
    assert_eq!(ran.out, "theirs", "{ran:?}");
    assert_eq!(ran.err.matches("Permission denied").count(), 2, "{ran:?}");
    assert_eq!(cluster.gpool(["secret", "list", "--all", "-o", "name"]).ok(), "TOKEN\nTOKEN\n");
    cluster.gpool(["secret", "remove", "TOKEN", "--user", "65534"]).ok();
    assert_eq!(as_nobody(&["secret", "list", "-o", "name"]).ok(), "");
    gate.open();
    assert_eq!(cluster.until_ended(&own).state, JobState::Succeeded);
    until_none_is_left(&cluster.state());
}

#[test]
fn a_job_on_another_machine_finds_its_secrets() {
    let cluster = Cluster::with(&["--devices", "none", "--listen", "127.0.0.1:0"]);
    let mut machine = Machine::new(&cluster, "lab2", "sim:1xA100-80G");
    machine.join("lab2");
    set(&cluster, "TOKEN", CANARY).ok();
    let gate = Gate::new(&cluster, "work/gate");
    let line = format!("cp $GPOOL_SECRETS/TOKEN copy; echo begun; {}", gate.line());
    let id = cluster.sh(&["--gpus", "1", "--secret", "TOKEN"], &line);
    until_so("it has begun", || cluster.gpool(["logs", &id]).out == "begun\n");
    assert_eq!(copy_of(&cluster), CANARY);
    let state = machine.path("agent");
    let files = files_with_it(&cluster.path(""));
    assert!(files.lines().all(|it| Path::new(it).starts_with(folder(&state))), "{files}");
    assert_eq!(processes_with_it(), Vec::<PathBuf>::new());
    machine.kill_agent();
    kill_9(cluster.shepherd(&id));
    assert!(folder(&state).exists());
    machine.start(&[]);
    until_none_is_left(&state);
    assert!(cluster.until_ended(&id).state.is_end());
    // A secret that is gone holds the job.
    let id = cluster.sh(&["--hold", "--gpus", "1", "--secret", "TOKEN"], "true");
    cluster.gpool(["secret", "remove", "TOKEN"]).ok();
    cluster.gpool(["release", &id]).ok();
    until_so("it is held", || cluster.why(&id).contains("the user has no secret TOKEN"));
    // A job there can set one for its user.
    let line = format!("echo value | {} secret set TOKEN", program().display());
    let setter = cluster.sh(&["--gpus", "1"], &line);
    assert_eq!(cluster.until_ended(&setter).state, JobState::Succeeded);
    cluster.gpool(["release", &id]).ok();
    assert_eq!(cluster.until_ended(&id).state, JobState::Succeeded);
}

#[test]
fn a_container_finds_its_secrets() {
    let Some(lab) = Lab::new("sim:1xA100-80G") else { return };
    let cluster = &lab.cluster;
    set(cluster, "TOKEN", CANARY).ok();
    let line = "cat $GPOOL_SECRETS/TOKEN > copy; touch $GPOOL_SECRETS/new; echo $?";
    let words = ["run", "--image", "tools:1", "--secret", "TOKEN", "--", "sh", "-c", line];
    let ran = cluster.gpool(words);
    assert!(ran.err.contains("Read-only file system"), "{ran:?}");
    assert_eq!(ran.ok(), "1\n");
    assert_eq!(copy_of(cluster), CANARY);
    until_none_is_left(&cluster.state());
}

#[test]
fn an_image_is_pulled_with_a_login() {
    let Some(lab) = Lab::new("sim:1xA100-80G") else { return };
    let cluster = &lab.cluster;
    assert!(is_root());
    let gate = cluster.path("pull-gate");
    let (registry, host) = registry(cluster, &gate, Some(&format!("ana:{CANARY}")));
    let image = format!("{host}/tool:1");
    let held = cluster.submit(["--image", &image, "--", "true"]);
    cluster.until_is(&held, "held");
    assert!(cluster.why(&held).contains(&format!("it can't pull {image}")));
    set(cluster, "NONE", "no-colon").ok();
    let none = cluster.submit(["--image", &image, "--image-login", "NONE", "--", "true"]);
    cluster.until_is(&none, "held");
    let words = "the secret NONE for its registry is neither USER:PASSWORD nor an auth.json";
    assert!(cluster.why(&none).contains(words), "{}", cluster.why(&none));

    set(cluster, "REGISTRY", &format!("ana:{CANARY}")).ok();
    let words = ["--image", &image, "--image-login", "REGISTRY", "--pull", "always"];
    let id = cluster.submit(words.iter().copied().chain(["--", "echo", "pulled"]));
    cluster.until_is(&id, "waiting");
    // While the pull runs, its login is only in a file of the user.
    let logins = || std::fs::read_dir(folder(&cluster.state())).is_ok_and(|it| it.count() == 1);
    until_so("the pull has its login", logins);
    assert_eq!(processes_with_it(), Vec::<PathBuf>::new());
    std::fs::write(&gate, "").unwrap();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "pulled\n");
    until_none_is_left(&cluster.state());
    assert_eq!(files_with_it(&cluster.path("")), "");
    // The same as a file of logins.
    let login = "YW5hOmNhbmFyeS01ZTFmMDBk";
    set(cluster, "REGISTRY", &format!("{{\"auths\":{{\"{host}\":{{\"auth\":\"{login}\"}}}}}}"))
        .ok();
    let id = cluster.submit(words.iter().copied().chain(["--", "true"]));
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    registry.signal(rustix::process::Signal::KILL);
    registry.end();
}
