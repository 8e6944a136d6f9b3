//! `gpool replay`: repeats decisions from dumps and journals of the real program.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Cluster, Gate, Ran, skip, until};

const CANARY: &str = "canary-77aa";

fn replay(cluster: &Cluster, path: &Path) -> Ran {
    cluster.gpool(["replay", &path.display().to_string()])
}

/// A cluster with loans, reclaimed, drained, ended and waiting jobs.
fn busy() -> Cluster {
    let cluster = Cluster::new("sim:4xH100-80G");
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "2"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "2"]).ok();
    let lent = ["--project", "red", "--gpus", "1", "--preemptible", "--note", CANARY, "-J", CANARY];
    for _ in 0..4 {
        let id = cluster.sh(&lent, &format!("echo {CANARY}; sleep 1000"));
        cluster.until_is(&id, "running");
    }
    let owner = cluster.sh(&["--project", "blue", "--gpus", "1"], "sleep 1000");
    cluster.until_is(&owner, "running");
    cluster.gpool(["run", "--", "true"]).ok();
    let waits = cluster.sh(&["--project", "blue", "--gpus", "2", "--time", "1h"], "true");
    cluster.gpool(["drain", "lab1:3", "--reason", CANARY, "--let-finish"]).ok();
    cluster.gpool(["prio", "-5", &waits]).ok();
    cluster.gpool(["undrain", "lab1:3"]).ok();
    cluster
}

#[test]
fn a_dump_makes_the_same_plan_again_with_the_server_and_without() {
    let mut cluster = busy();
    let dump = |cluster: &Cluster, name: &str| -> PathBuf {
        cluster.gpool(["debug", "dump", name]).ok();
        let path = cluster.work().join(name);
        assert!(!std::fs::read_to_string(&path).unwrap().contains(CANARY));
        path
    };
    let live = dump(&cluster, "live.json");
    let said = replay(&cluster, &live).ok();
    assert!(said.contains("the plan is the same, byte for byte"), "{said}");
    cluster.kill();
    let away = dump(&cluster, "away.json");
    let json = cluster.gpool(["replay", "away.json", "--json"]).json();
    assert_eq!((&json["same"], &json["difference"]), (&true.into(), &Value::Null), "{json}");
    assert!(json["jobs"].as_u64().unwrap() >= 6, "{json}");
    assert!(replay(&cluster, &away).ok().contains("the plan is the same"));
}

#[test]
fn what_is_no_dump_or_not_whole_or_of_another_version_is_refused() {
    let cluster = Cluster::new("sim:1xH100-80G");
    cluster.gpool(["debug", "dump", "case.json"]).ok();
    let text = std::fs::read_to_string(cluster.work().join("case.json")).unwrap();
    let refused = |text: &str, words: &[&str]| {
        std::fs::write(cluster.work().join("other.json"), text).unwrap();
        let ran = cluster.gpool(["replay", "other.json"]);
        ran.refused(2, &[&["GP0256", "other.json"], words].concat());
    };
    refused(&text[..text.len() / 2], &["it is incomplete"]);
    refused("no JSON", &["it is not a dump of gpool", "gpool debug dump"]);
    refused("", &["it is not a dump"]);
    refused("{\"kind\": \"job\"}", &["it is not a dump"]);
    let version = format!("\"gpool\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    let older = text.replace(&version, "\"gpool\": \"0.0.9\"");
    refused(&older, &["gpool 0.0.9 wrote it", "replay it with gpool 0.0.9"]);
    let of_case = text.find("\"case\":").unwrap();
    let at = of_case + text[of_case..].find("\"revision\":").unwrap() + "\"revision\":".len();
    let changed = |with: &str| format!("{}{with}{}", &text[..at], &text[at..]);
    refused(&changed("9"), &["its checksum differs"]);
    refused(&changed("}"), &["its checksum differs"]);
    cluster.gpool(["replay", "no-such.json"]).refused(2, &["GP0256", "no-such.json"]);
    cluster.gpool(["replay", "case.json", "--from", "case.json"]).refused(2, &["--from"]);
}

#[test]
fn another_plan_is_shown_beside_the_recorded_one() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let holder = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&holder, "running");
    cluster.sh(&["--gpus", "1"], "true");
    cluster.gpool(["debug", "dump", "case.json"]).ok();
    let path = cluster.work().join("case.json");
    let mut dump: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    // As if another program had planned, with a valid checksum.
    let mut case = gpool_journal::case::Case::read(&std::fs::read(&path).unwrap()).unwrap();
    let plan = case.plan.as_mut().unwrap();
    assert_eq!(plan.waits.len(), 1, "{plan:?}");
    plan.waits[0].n_jobs += 1;
    dump["case"] = serde_json::to_value(&case).unwrap();
    dump["checksum"] = case.checksum().into();
    std::fs::write(&path, dump.to_string()).unwrap();
    let ran = cluster.gpool(["replay", "case.json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("wait 1 differs\n  recorded  {"), "{ran:?}");
    assert!(ran.out.contains("\"n_jobs\":2") && ran.out.contains("\"n_jobs\":1"), "{ran:?}");
}

#[test]
fn a_journal_makes_every_plan_and_record_again() {
    let mut cluster = busy();
    cluster.gpool(["backup", "half.backup"]).ok();
    // Another run of the server, with other jobs.
    cluster.kill();
    cluster.up();
    cluster.gpool(["run", "--gpus", "0", "--", "true"]).ok();
    cluster.gpool(["policy", "set", "order=age"]).ok();
    let all_same = |ran: Ran| {
        let said = ran.ok();
        assert!(said.contains(" plans: all the same\n"), "{said}");
        assert!(said.contains(" records: all the same\n"), "{said}");
    };
    // While a server runs, and from the end of a backup.
    all_same(replay(&cluster, &cluster.state()));
    cluster.down(&[]);
    all_same(replay(&cluster, &cluster.state()));
    let state = cluster.state().display().to_string();
    all_same(cluster.gpool(["replay", "--from", "half.backup", &state]));
    all_same(cluster.gpool(["replay", "half.backup"]));
    let json = cluster.gpool(["replay", &state, "--json"]).json();
    assert!(json["plans"].as_u64().unwrap() >= 6, "{json}");
    let other = Cluster::new("sim:1xH100-80G");
    other.gpool(["backup", "other.backup"]).ok();
    let from = other.work().join("other.backup").display().to_string();
    cluster
        .gpool(["replay", "--from", &from, &state])
        .refused(2, &["GP0256", "not from the same cluster"]);
}

/// Whether `gpool` is built with failpoints: then it fails on an invalid variable.
fn has_failpoints(cluster: &Cluster) -> bool {
    let mut command = cluster.command();
    command.env("GPOOL_FAILPOINT", "nonsense").arg("--version");
    !command.output().unwrap().status.success()
}

#[test]
fn a_job_whose_plan_is_wrong_is_held_and_the_plan_replays_to_what_it_breaks() {
    let mut cluster = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
    if !has_failpoints(&cluster) {
        return skip("gpool is built without failpoints");
    }
    cluster.up();
    let runs = cluster.sh(&["--gpus", "1"], "sleep 1000");
    let before = cluster.until_is(&runs, "running").run.attempt;
    cluster.kill();
    cluster.variables = vec![("GPOOL_WRONGPOINT".to_owned(), "server-plan-wrong".to_owned())];
    cluster.up();
    let gate = Gate::new(&cluster, "gate");
    let waits = cluster.sh(&["--gpus", "1", "--note", CANARY], &gate.line());
    let alerts = cluster.state().join("alerts");
    let case = until("the case is kept", || {
        let mut files = std::fs::read_dir(&alerts).ok()?.flatten();
        files.next().map(|file| file.path())
    });
    cluster.until_is(&waits, "held");
    let why = cluster.gpool(["why", &waits]);
    assert!(
        why.out.contains("held by the scheduler: its plan for this job broke a rule"),
        "{why:?}"
    );
    assert_eq!(cluster.job(&runs).run.attempt, before);
    assert!(cluster.log().contains("plan violates an invariant"), "{}", cluster.log());
    let metrics = cluster.client().metrics().unwrap();
    let counted = metrics.lines().any(|line| line.contains("alert") && !line.ends_with(" 0"));
    assert!(counted, "{metrics}");
    let text = until("it is written", || {
        std::fs::read_to_string(&case).ok().filter(|text| text.ends_with('}'))
    });
    assert!(!text.contains(CANARY), "{text}");
    // The real program makes another plan, and the recorded plan still breaks the invariant.
    let json = cluster.gpool(["replay", &case.display().to_string(), "--json"]);
    assert_eq!(json.code, 1, "{json:?}");
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["difference"]["what"], "decision 2", "{json}");
    let violations = &json["violations"];
    assert_eq!(violations["recorded"], violations["now"], "{json}");
    assert!(!violations["now"].as_array().unwrap().is_empty(), "{json}");
    // Without the fault the job starts.
    cluster.kill();
    cluster.variables.clear();
    cluster.up();
    cluster.gpool(["release", &waits]).ok();
    cluster.until_is(&waits, "running");
    gate.open();
    cluster.until_ended(&waits);
}
