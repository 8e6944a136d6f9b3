//! Reservations, maintenance windows and drains, with the real program.

use crate::harness::{Cluster, until_so};
use crate::users::{NOBODY, as_nobody, cluster as roots};

/// The only node.
fn node(cluster: &Cluster) -> String {
    cluster.gpool(["nodes", "-o", "name"]).ok().trim().to_owned()
}

#[test]
fn a_reservation_for_a_user_is_for_that_user_only() {
    let Some(cluster) = roots() else { return };
    let node = node(&cluster);
    let devices = format!("{node}:0");
    let user = NOBODY.to_string();
    let create = ["reserve", "create", "--devices", &devices, "--user", &user, "--name", "demo"];
    let made = cluster.gpool(create).ok();
    assert!(made.starts_with("demo reserves "), "{made}");
    // Other users get the other device, and wait for more with that reason.
    let one = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&one, "running");
    assert_eq!(cluster.devices_of(&one), [1]);
    let waits = cluster.sh(&["--gpus", "1"], "true");
    let why = cluster.gpool(["why", &waits, "--json"]).json();
    let reasons = why["items"][0]["reasons"].as_array().unwrap().clone();
    let ours = reasons.iter().find(|it| it["code"] == "reserved_for_other");
    assert_eq!(ours.expect("the reservation is a reason")["reservation"], "demo", "{why}");
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains("free (demo)"), "{table}");
    // Its user gets the device at once; every user can see the reservation, and admins end it.
    as_nobody(&cluster, &["run", "--gpus", "1", "--", "true"]).ok();
    let list = as_nobody(&cluster, &["reserve", "list"]).ok();
    assert!(list.contains("demo") && list.contains("active"), "{list}");
    let refused = as_nobody(&cluster, &["reserve", "cancel", "demo"]);
    assert_eq!(refused.code, 5, "{}", refused.err);
    cluster.gpool(["reserve", "release", "demo"]).ok();
    assert_eq!(cluster.until_ended(&waits).run.exit_code, Some(0));
    cluster.gpool(["cancel", &one]).ok();
}

#[test]
fn a_drain_lists_the_affected_jobs_before_it_changes_anything() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let node = node(&cluster);
    let long = cluster.sh(&["--gpus", "1"], "sleep 1000");
    let short = cluster.sh(&["--gpus", "1", "--time", "5m"], "sleep 1000");
    cluster.until_is(&long, "running");
    cluster.until_is(&short, "running");
    let drain = ["drain", &node, "--by", "2h", "--reason", "new PSU"];
    let ran = cluster.gpool(drain);
    let will_not = format!("1 job will not finish in time: {long} (");
    let words = ["nothing changed yet", "1 job there will finish in time", &will_not, "GP0731"];
    ran.refused(7, &words);
    assert!(!cluster.gpool(["nodes"]).ok().contains("drained"));
    // With `--requeue` they are queued again at once, and wait with the admin's reason.
    let target = format!("{node}:0,1");
    cluster.gpool(["drain", &target, "--reason", "new PSU", "--requeue"]).ok();
    cluster.until_is(&long, "pending");
    cluster.until_is(&short, "pending");
    let why = cluster.gpool(["why", &long]).ok();
    assert!(why.contains("new PSU"), "{why}");
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains("2 drained"), "{table}");
    cluster.gpool(["undrain", &target]).ok();
    cluster.until_is(&long, "running");
    assert_eq!(cluster.gpool(["undrain", &target]).code, 7);
    cluster.gpool(["cancel", &long, &short]).ok();
}

#[test]
fn before_maintenance_only_jobs_that_end_in_time_are_started() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let window = ["maint", "create", "--all", "--from", "2h", "--for", "4h", "--reason", "new PSU"];
    let made = cluster.gpool(window).ok();
    assert!(made.contains("for maintenance"), "{made}");
    let long = cluster.sh(&["--gpus", "1", "--time", "3h"], "true");
    let open = cluster.sh(&["--gpus", "1"], "true");
    let short = cluster.sh(&["--gpus", "1", "--time", "30m"], "true");
    assert_eq!(cluster.until_ended(&short).run.exit_code, Some(0));
    for id in [&long, &open] {
        assert_eq!(cluster.job(id).state.as_str(), "pending");
        let why = cluster.gpool(["why", id, "--json"]).json();
        assert_eq!(why["items"][0]["reasons"][0]["code"], "maintenance_soon", "{why}");
    }
    let drawn = cluster.gpool(["reserve", "list", "--timeline"]).ok();
    assert!(drawn.contains("m1"), "{drawn}");
    cluster.gpool(["maint", "cancel", "m1"]).ok();
    for id in [&long, &open] {
        assert_eq!(cluster.until_ended(id).run.exit_code, Some(0));
    }
}

#[test]
fn a_recurring_window_survives_a_restart_and_conflicts_at_every_recurrence() {
    let mut cluster = Cluster::new("sim:2xH100-80G");
    let project = ["reserve", "create", "--gpus", "1", "--project", "default", "--every", "7d"];
    let when = ["--from", "2h", "--for", "1h"];
    cluster.gpool(project.iter().chain(&when)).ok();
    let before = cluster.gpool(["reserve", "show", "r1", "--json"]).json();
    assert_eq!(before["items"][0]["every"], 604_800.0);
    cluster.kill();
    cluster.up();
    until_so("it is there again", || cluster.gpool(["reserve", "show", "r1"]).code == 0);
    // Two weeks later it would conflict.
    let window = ["maint", "create", "--all", "--for", "30m", "--from", "now+14d2h10m"];
    let refused = cluster.gpool(window);
    assert_eq!(refused.code, 7, "{}", refused.err);
    assert!(refused.err.contains("GP0732") && refused.err.contains("r1"), "{}", refused.err);
    for (wrong, code) in [
        (&["--gpus", "1", "--user", "no-such-user-here"][..], 2),
        (&["--gpus", "3", "--project", "default"], 4),
        (&["--gpus", "1", "--project", "none"], 6),
        (&["--devices", "lab9:0", "--project", "default"], 6),
        (&["--gpus", "1", "--project", "default", "--from", "2020-01-01"], 2),
        (&["--gpus", "1", "--project", "default", "--every", "1d"], 2),
    ] {
        let ran = cluster.gpool(["reserve", "create"].iter().chain(wrong));
        assert_eq!(ran.code, code, "{wrong:?}: {}", ran.err);
    }
}
