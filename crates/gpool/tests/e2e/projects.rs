//! Projects with quotas: borrowing, reclaiming and refusals, with the real program.

use std::fs;

use crate::harness::{Cluster, until, until_so};
use crate::here::Here;
use crate::http::Http;
use crate::users::{NOBODY, as_nobody, cluster as roots};

/// Two projects, each guaranteed two of four GPUs; no other project is guaranteed any.
fn two(devices: &str) -> Cluster {
    let cluster = Cluster::new(devices);
    cluster.gpool(["project", "edit", "default", "--gpus", "0"]).ok();
    cluster.gpool(["project", "create", "red", "--gpus", "2"]).ok();
    cluster.gpool(["project", "create", "blue", "--gpus", "2", "--limit", "3"]).ok();
    cluster
}

fn in_project<'a>(project: &'a str, gpus: &'a str) -> Vec<&'a str> {
    vec!["--project", project, "--gpus", gpus]
}

fn lent<'a>(project: &'a str, gpus: &'a str) -> Vec<&'a str> {
    [&in_project(project, gpus)[..], &["--preemptible"]].concat()
}

/// A job that runs until SIGTERM, and then until a file exists.
const STAYS: &str = "trap 'until [ -e leave ]; do sleep 0.02; done; exit 143' TERM; \
                     while true; do sleep 0.02; done";

#[test]
fn idle_gpus_are_lent_and_reclaimed_for_their_owner() {
    let cluster = two("sim:4xH100-80G");
    let borrowed: Vec<String> =
        (0..4).map(|_| cluster.sh(&lent("red", "1"), "sleep 1000")).collect();
    for id in &borrowed {
        cluster.until_is(id, "running");
    }
    let quota = cluster.gpool(["quota", "--json"]).json();
    let row = |name: &str| {
        let rows = quota["items"].as_array().unwrap();
        rows.iter().find(|row| row["project"] == name).expect(name).clone()
    };
    let red = row("red");
    assert_eq!((&red["held"], &red["on_loan"]), (&4.0.into(), &2.0.into()), "{red}");
    assert_eq!(red["borrows"][0]["project"], "blue", "{red}");
    assert_eq!(row("blue")["lends"][0]["gpus"], 2.0, "{quota}");
    let table = cluster.gpool(["quota"]).ok();
    assert!(table.contains("borrows 2 from blue") && table.contains("lends 2 to red"), "{table}");
    let metrics = Http::new(&cluster).get("/metrics").body;
    let all_of_its_share = "gpool_project_weighted_share{project=\"red\",department=\"false\"} 1";
    assert!(metrics.contains(all_of_its_share), "{metrics}");
    // The owner's job starts: the job that loses the least work is evicted, queued again, and shows
    // the beneficiary.
    let owner = cluster.sh(&in_project("blue", "1"), "sleep 1000");
    cluster.until_is(&owner, "running");
    let went = until("one is pending again", || {
        borrowed.iter().find(|id| cluster.job(id).state.as_str() == "pending")
    });
    let shown = cluster.gpool(["show", went]).ok();
    assert!(shown.contains(&format!("reclaimed for job {owner}")), "{shown}");
    let why = cluster.gpool(["why", went]).ok();
    assert!(why.contains("It needs 1 GPU, and none is free"), "{why}");
    // It runs again when capacity is free, as its next attempt.
    cluster.gpool(["cancel", &owner]).ok();
    assert_eq!(cluster.until_is(went, "running").run.attempt, 2);
    for id in borrowed.iter().filter(|id| *id != went) {
        assert_eq!(cluster.job(id).run.attempt, 1, "only one was evicted");
    }
}

#[test]
fn a_limit_applies_even_with_free_gpus_and_a_guarantee_bounds_non_preemptible_jobs() {
    let cluster = two("sim:4xH100-80G");
    for _ in 0..3 {
        let id = cluster.sh(&lent("blue", "1"), "sleep 1000");
        cluster.until_is(&id, "running");
    }
    let waits = cluster.sh(&lent("blue", "1"), "true");
    let why = cluster.why(&waits);
    assert!(why.contains("Project blue uses 3 GPUs, its limit is 3 GPUs"), "{why}");
    let code = &cluster.gpool(["why", &waits, "--json"]).json()["items"][0]["reasons"][0];
    assert_eq!((&code["code"], &code["bound"]), (&"quota_project".into(), &"limit".into()));
    let queue = cluster.gpool(["queue", "-p", "blue", "-s", "pending"]).ok();
    assert!(queue.contains(&waits) && queue.contains("PROJECT"), "{queue}");
    cluster.gpool(["project", "edit", "blue", "--limit", "4"]).ok();
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(0));
    cluster.gpool(["cancel", "all", "--yes"]).ok();
    until_so("all GPUs are free", || (0..4).all(|gpu| cluster.gpu_state(gpu) == "free"));
    // Non-preemptible jobs never use more than the guarantee, even if GPUs are free.
    let own = cluster.sh(&in_project("red", "2"), "sleep 1000");
    cluster.until_is(&own, "running");
    let more = cluster.sh(&in_project("red", "1"), "true");
    let why = cluster.why(&more);
    assert!(
        why.contains("red's 2 guaranteed GPUs are in use; with --preemptible it can borrow"),
        "{why}"
    );
    assert_eq!(cluster.job(&more).state.as_str(), "pending");
    let lent = cluster.sh(&in_project("red", "1"), "true");
    cluster.gpool(["edit", &lent, "--preemptible"]).ok();
    assert_eq!(cluster.until_ended(&lent).run.exit_code, Some(0));
    cluster.gpool(["project", "edit", "blue", "--gpus", "1"]).ok();
    cluster.gpool(["project", "edit", "red", "--gpus", "3"]).ok();
    assert_eq!(cluster.until_ended(&more).run.exit_code, Some(0));
    cluster.gpool(["cancel", &own]).ok();
}

#[test]
fn impossible_requests_are_refused_with_a_remedy() {
    let cluster = two("sim:4xH100-80G");
    let here = Here::of(cluster.socket().to_str().unwrap());
    let submit = |flags: &[&str], code: u8, said: &[&str]| {
        here.refused(&[&["submit"], flags, &["--", "true"]].concat(), code, said);
    };
    let guaranteed = ["GP0415", "red is guaranteed 2 GPUs", "--preemptible"];
    submit(&in_project("red", "3"), 4, &guaranteed);
    submit(&lent("blue", "4"), 4, &["GP0415", "the limit of blue is 3 GPUs"]);
    let asks = [&in_project("red", "3")[..], &["--allow-unsatisfiable", "--hold"]].concat();
    cluster.submit([&asks[..], &["--", "true"]].concat());
    submit(&in_project("rde", "1"), 6, &["GP0602", "did you mean \"red\"?"]);
    cluster.gpool(["project", "create", "lab"]).ok();
    cluster.gpool(["project", "create", "lab/a", "--parent", "lab", "--time-max", "1h"]).ok();
    submit(&in_project("lab", "0"), 7, &["GP0741", "below it: lab/a", "--project lab/a"]);
    submit(&["--project", "lab/a", "--time", "2h"], 5, &["GP0509", "the longest is 1h"]);
    let project = |words: &[&str], code: u8, said: &[&str]| {
        here.refused(&[&["project"], words].concat(), code, said);
    };
    project(&["delete", "red"], 7, &["GP0743", "1 job"]);
    project(&["delete", "lab"], 7, &["GP0744", "lab/a"]);
    project(&["delete", "default"], 7, &["GP0746"]);
    project(&["create", "x", "--parent", "red"], 7, &["GP0743"]);
    project(&["edit", "lab", "--parent", "lab/a"], 7, &["GP0745", "lab"]);
    project(&["create", "red"], 7, &["GP0742", "gpool project edit red"]);
    project(&["edit", "rde", "--gpus", "1"], 6, &["GP0602", "red"]);
    project(&["show", "rde"], 6, &["GP0602"]);
    project(&["edit", "red"], 2, &["nothing to change"]);
    for (flag, value, words) in [
        ("--gpus", "NaN", "\"NaN\" is not a number of GPUs"),
        ("--gpus", "-1", "\"-1\" is not a number of GPUs"),
        ("--gpus", "4x", "position 2: 'x'"),
        ("--limit", "99999999999999", "out of range"),
        ("--weight", "-2", "is not a weight"),
        ("--mem", "20", "is not an amount of memory"),
        ("--gpus-of", "a100", "--gpus-of a100: the amount after = is missing"),
        ("--gpus-of", "a100=4,a100=2", "it is given twice"),
        ("--gpus-of", "a100=x", "gpus_of: \"x\" is not a number of GPUs"),
        ("--limit-of", "2=1", "limit_of: \"2\" is not a GPU model"),
        ("--gpus-in", "a b=1", "gpus_in: a pool name"),
        ("--members", "a b", "not a user name"),
    ] {
        project(&["edit", "red", flag, value], 2, &[words]);
    }
    let red = cluster.gpool(["project", "show", "red", "--json"]).json();
    assert_eq!(red["items"][0]["version"], 1, "no part was applied");
    here.refused(&["quota", "rde"], 6, &["GP0602", "gpool quota red"]);
}

#[test]
fn a_set_of_projects_is_compared_and_applied_whole_and_a_second_edit_conflicts() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let file = cluster.work().join("projects.toml");
    let text = "[projects.lab]\n\n[projects.red]\nparent = \"lab\"\ngpus = 3\n\n\
                [projects.blue]\nparent = \"lab\"\ngpus = 2\nmembers = [\"ana\", \"@video\"]\n";
    fs::write(&file, text).unwrap();
    let apply =
        |more: &[&str]| cluster.gpool([&["project", "apply", "projects.toml"], more].concat());
    let looked = apply(&["--dry-run"]);
    assert!(looked.err.contains("dry run"), "{}", looked.err);
    assert!(
        looked.err.contains("all projects together are guaranteed 5 GPUs, and the cluster has 4"),
        "{}",
        looked.err
    );
    assert!(looked.err.contains("gpool project edit default --gpus 0"), "{}", looked.err);
    let out = looked.ok();
    assert!(out.contains("+ red created") && out.contains("parent       lab"), "{out}");
    apply(&[]).refused(2, &["nothing changed yet", "+ red created", "--yes"]);
    assert_eq!(cluster.gpool(["project", "list", "-o", "name"]).ok(), "default\n");
    apply(&["--yes"]).ok();
    let names = cluster.gpool(["project", "list", "-o", "name"]).ok();
    assert_eq!(names, "default\nlab\nblue\nred\n", "departments first");
    assert!(apply(&["--yes"]).err.contains("nothing differs"));
    // A department stands for all projects below it, with their living and ended jobs.
    let mut waiting = Vec::new();
    for project in ["red", "blue"] {
        cluster.gpool(["run", "-p", project, "--", "true"]).ok();
        let held = cluster.gpool(["submit", "-p", project, "--hold", "--", "true"]).ok();
        waiting.push(held.trim().to_owned());
    }
    let ids = |project: &str| {
        let all = ["queue", "-p", project, "--state", "all", "-o", "name"];
        cluster.gpool(all).ok().lines().count()
    };
    assert_eq!((ids("lab"), ids("red"), ids("default")), (4, 2, 0));
    waiting.iter().for_each(|id| drop(cluster.gpool(["cancel", id]).ok()));
    // Two concurrent edits: both saw version 1.
    let edit =
        |gpus| cluster.gpool(["project", "edit", "red", "--gpus", gpus, "--if-version", "1"]);
    edit("1").ok();
    edit("4").refused(7, &["GP0708", "you read version 1; it is now at version 2"]);
    let http = Http::new(&cluster);
    let kind = ("Content-Type", "application/json");
    let tag = ("If-Match", "\"1\"");
    let late = http.send("PATCH", "/api/v1/projects/red", &[kind, tag], b"{\"gpus\":4}");
    assert_eq!((late.status, &*late.problem_code()), (412, "GP0708"));
    let tag = ("If-Match", "\"2\"");
    let fine = http.send("PATCH", "/api/v1/projects/red", &[kind, tag], b"{\"gpus\":2}");
    assert_eq!(fine.status, 200, "{fine:?}");
    // A file with one fault changes nothing.
    fs::write(&file, format!("{text}\n[projects.green]\nparent = \"nowhere\"\n")).unwrap();
    apply(&["--yes"]).refused(6, &["GP0602", "nowhere"]);
    fs::write(&file, format!("{text}\n[projects.green]\ngpus = \"4x\"\n")).unwrap();
    apply(&["--yes"]).refused(2, &["projects.toml:13: projects.green.gpus"]);
    fs::write(&file, "[projects.red]\ngpus = 2\n").unwrap();
    let pruned = apply(&["--prune", "--yes"]).ok();
    assert!(pruned.contains("- lab deleted") && pruned.contains("~ red changed"), "{pruned}");
    assert_eq!(cluster.gpool(["project", "list", "-o", "name"]).ok(), "default\nred\n");
}

#[test]
fn a_claim_survives_a_restart_and_cancelled_jobs() {
    let mut cluster = two("sim:4xH100-80G");
    let stays: Vec<String> = (0..4).map(|_| cluster.sh(&lent("red", "1"), STAYS)).collect();
    for id in &stays {
        cluster.until_is(id, "running");
    }
    let first = cluster.sh(&in_project("blue", "1"), "sleep 1000");
    let second = cluster.sh(&in_project("blue", "1"), "sleep 1000");
    for id in [&first, &second] {
        cluster.until_is(id, "starting");
    }
    let why = cluster.why(&first);
    let is_decided = why.contains("It has a place, and starts when your job ");
    assert!(is_decided && why.contains("(project red) has released GPU "), "{why}");
    let reason = &cluster.gpool(["why", &first, "--json"]).json()["items"][0]["reasons"][0];
    assert_eq!(reason["code"], "preemption_grace", "{reason}");
    let is_leaving = |id: &&String| cluster.job(id).state.as_str() == "stopping";
    let leaving = until("two are being evicted", || {
        let leaving: Vec<&String> = stays.iter().filter(is_leaving).collect();
        <[&String; 2]>::try_from(leaving).ok()
    });
    let [oldest, newest] = leaving.map(String::clone);
    let (oldest, newest) = (oldest.as_str(), newest.as_str());
    let shown = cluster.gpool(["show", newest]).ok();
    assert!(shown.contains("reclaimed for job"), "{shown}");
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.gpool(["project", "show", "blue"]).ok().lines().count(), 6);
    for id in [&first, &second] {
        assert_eq!(cluster.job(id).state.as_str(), "starting");
    }
    // One of the claiming jobs is cancelled, and one of the evicted ones.
    cluster.gpool(["cancel", &second]).ok();
    cluster.gpool(["cancel", newest]).ok();
    fs::write(cluster.work().join("leave"), "").unwrap();
    cluster.until_is(&first, "running");
    assert_eq!(cluster.until_ended(newest).state.as_str(), "cancelled");
    until_so("the other runs again", || cluster.job(oldest).run.attempt == 2);
    cluster.until_is(oldest, "running");
    cluster.gpool(["cancel", "all", "--yes"]).ok();
}

#[test]
fn members_submit_and_project_admins_act_on_jobs_below_their_project() {
    let Some(cluster) = roots() else { return };
    let nobody = gpool_name(NOBODY);
    let create = |words: &[&str]| cluster.gpool([&["project", "create"], words].concat()).ok();
    create(&["closed", "--members", "root,@root"]);
    create(&["lab", "--gpus", "1", "--admins", &nobody]);
    create(&["lab/a", "--parent", "lab", "--gpus", "1"]);
    let submit = ["submit", "--project", "closed", "--", "true"];
    as_nobody(&cluster, &submit).refused(5, &["GP0508", "its members are root, @root", "lab/a"]);
    let theirs = cluster.sh(&["--project", "lab/a"], "sleep 1000");
    let own = cluster.sh(&[], "sleep 1000");
    cluster.until_is(&theirs, "running");
    as_nobody(&cluster, &["cancel", &own]).refused(5, &["GP0501"]);
    as_nobody(&cluster, &["signal", "USR1", &theirs]).refused(5, &["GP0501"]);
    as_nobody(&cluster, &["cancel", &theirs, "--yes"]).ok();
    assert_eq!(cluster.until_ended(&theirs).state.as_str(), "cancelled");
    as_nobody(&cluster, &["project", "edit", "lab/a", "--gpus", "0.5"]).ok();
    let more = ["project", "edit", "lab/a", "--gpus", "2"];
    as_nobody(&cluster, &more).refused(5, &["GP0510", "lab is guaranteed 1 GPU"]);
    as_nobody(&cluster, &["project", "edit", "lab", "--gpus", "2"]).refused(5, &["GP0501"]);
    as_nobody(&cluster, &["project", "create", "mine"]).refused(5, &["GP0501"]);
    as_nobody(&cluster, &["project", "create", "lab/b", "--parent", "lab"]).ok();
    as_nobody(&cluster, &["project", "delete", "lab/b"]).ok();
    cluster.gpool(["cancel", &own]).ok();
}

/// The name of a user in the server.
fn gpool_name(uid: u32) -> String {
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let mut rows = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let row = rows.find(|row| row[2] == uid.to_string());
    row.map_or_else(|| uid.to_string(), |row| row[0].to_owned())
}

#[test]
fn a_user_has_a_cap_in_one_project_and_none_in_another() {
    let cluster = two("sim:4xH100-80G");
    let edit = |words: &[&str]| cluster.gpool([&["project", "edit"], words].concat());
    let said = edit(&["red", "--user-gpus", "1", "--user-running", "3"]).ok();
    assert!(said.contains("user_running none → 3") && said.contains("none → 1"), "{said}");
    let shown = cluster.gpool(["project", "show", "red"]).ok();
    assert!(shown.contains("at most 3 jobs running · at most 1 GPU"), "{shown}");
    let json = cluster.gpool(["project", "show", "red", "--json"]).json();
    let first = json.get("items").map_or(&json, |items| &items[0]);
    assert_eq!((&first["user_gpus"], &first["user_running"]), (&1.0.into(), &3.into()), "{json}");
    let one = cluster.sh(&in_project("red", "1"), "sleep 1000");
    cluster.until_is(&one, "running");
    let waits = cluster.sh(&in_project("red", "1"), "sleep 1000");
    let other = cluster.sh(&in_project("blue", "1"), "sleep 1000");
    cluster.until_is(&other, "running");
    let reason = &cluster.job(&waits).wait.reasons[0];
    assert_eq!(reason.code, "quota_user_in_project");
    let most = "You hold 1 GPU in project red, your limit there (set by an admin)";
    assert!(cluster.why(&waits).contains(most));
    let dry = [&["submit", "--dry-run"][..], &in_project("red", "1"), &["--", "true"]].concat();
    let dry = cluster.gpool(dry).ok();
    assert!(dry.contains(most), "{dry}");
    // An impossible request is refused at once, and so are invalid values.
    let never = [&["submit"][..], &in_project("red", "2"), &["--", "true"]].concat();
    cluster.gpool(never).refused(4, &["GP0417", "it needs 2 GPUs", "at most 1 GPU in project red"]);
    for (flag, value) in [
        ("--user-gpus", "many"),
        ("--user-gpus", "-1"),
        ("--user-gpus", "99999999999999999999"),
        ("--user-running", "1.5"),
        ("--user-running", "-1"),
        ("--user-running", ""),
    ] {
        edit(&["red", flag, value]).refused(2, &[&flag[2..].replace('-', "_"), "none"]);
    }
    // A running job counts for the department too, and a removed cap no longer applies.
    cluster.gpool(["project", "create", "lab", "--user-running", "1"]).ok();
    edit(&["red", "--parent", "lab", "--user-gpus", "none"]).ok();
    let why = cluster.why(&waits);
    assert!(why.contains("You run 1 job in project lab, your limit there"), "{why}");
    edit(&["lab", "--user-running", "none"]).ok();
    cluster.until_is(&waits, "running");
    let file = cluster.work().join("projects.toml");
    fs::write(&file, "[projects.red]\ngpus = 2\nuser_gpus = 0.5\nuser_running = 4\n").unwrap();
    let applied = cluster.gpool(["project", "apply", file.to_str().unwrap(), "--yes"]).ok();
    assert!(applied.contains("user_gpus") && applied.contains("none → 0.5"), "{applied}");
}

#[test]
fn a_loan_shows_when_it_is_returned() {
    let cluster = two("sim:4xH100-80G");
    let limited = [&lent("red", "3")[..], &["--time", "5h"]].concat();
    let borrows = cluster.sh(&limited, "sleep 1000");
    cluster.until_is(&borrows, "running");
    let quota = cluster.gpool(["quota", "--json"]).json();
    let rows = quota["items"].as_array().unwrap();
    let loan = |name: &str, side: &str| {
        let row = rows.iter().find(|row| row["project"] == name).expect(name);
        row[side][0].clone()
    };
    let (one, other) = (loan("red", "borrows"), loan("blue", "lends"));
    assert_eq!((&one["when_asked"], &one["basis"]), (&true.into(), &"limit".into()), "{quota}");
    assert!(one["until"].is_string() && one["until"] == other["until"], "{quota}");
    let said = cluster.gpool(["quota", "red"]).ok();
    let line = "red borrows 1 from blue: returned on demand, otherwise by ";
    assert!(said.contains(line) && said.contains("(time limit)"), "{said}");
    assert!(cluster.gpool(["quota", "blue"]).ok().contains("blue lends 1 to red"), "{said}");
    let wide = cluster.gpool(["quota", "-o", "wide"]).ok();
    assert!(wide.contains("RETURNED") && wide.contains("blue on demand, otherwise by"), "{wide}");
    let table = cluster.gpool(["quota"]).ok();
    assert!(!table.contains("RETURNED"), "{table}");
}
