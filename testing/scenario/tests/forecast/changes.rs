//! Forecasts with little information, and after changes of their basis.

use gpool_control::forecast::{self, Calibrator, Moved};
use gpool_model::{Policy, Timestamp};
use gpool_scenario::Cluster;
use insta::assert_snapshot;

use crate::rig::{cluster, etas, id_of, part};

fn minutes(at: Option<Timestamp>, now: Timestamp) -> String {
    at.map_or_else(|| "never".to_owned(), |at| at.since(now).to_string())
}

/// Returns the jobs that start at another time under another policy, one per line.
fn moved(cluster: &Cluster, change: impl FnOnce(&mut Policy)) -> String {
    let before = part(cluster);
    let mut after = before.clone();
    change(&mut after.excerpt.policy);
    let moved = forecast::moved(&before, &after, 100);
    let line = |it: &Moved| {
        let name = &before.excerpt.jobs[&it.job].spec.name;
        let [was, is] = [it.before, it.after].map(|at| minutes(at, before.now));
        format!("{name} {was} {is}\n")
    };
    moved.iter().map(line).collect()
}

#[test]
fn without_history_and_limit_the_forecast_is_marked_as_a_guess() {
    // Shortest first: a job without a prediction or limit goes last, by age.
    assert_snapshot!(etas(
        "policy order predicted,age
         node lab1 1 x h100-80g
         job a 1 running lab1[0] 0m
         job b 1 pending 10m
         job c 1 pending 9m
         job d 1 pending 1m limit 1h",
    ), @r"
    b 21m 1h30 10h00 by mixed
    c 28m 2h30 19h00 by mixed
    d 6m40s 1h00 9h00 by predicted
    ");
}

#[test]
fn another_order_moves_the_jobs_that_it_reorders() {
    let cluster = cluster(
        "node lab1 1 x h100-80g
         job a 1 running lab1[0] 1h limit 3h
         job b 1 pending 10m limit 2h
         job c 1 pending 5m limit 1h priority 5
         job d 1 pending 1m limit 1h priority -5",
    );
    assert_snapshot!(moved(&cluster, |policy| policy.set("order", "age").unwrap()), @r"
    c 1h00 2h00
    b 1h30 1h00
    ");
    assert_eq!(moved(&cluster, |policy| policy.set("escalate_after", "9h").unwrap()), "");
    assert_eq!(moved(&cluster, |_| {}), "");
}

#[test]
fn a_forecast_does_not_change_with_later_policies() {
    let mut cluster = cluster(
        "node lab1 1 x h100-80g
         job a 1 running lab1[0] 1h limit 3h
         job b 1 pending 10m limit 2h
         job c 1 pending 5m limit 1h priority 5",
    );
    let before = part(&cluster);
    let made = forecast::forecast(&before, 100, &Calibrator::default());
    let policy = Policy { user_caps: Default::default(), ..Policy::fifo() };
    cluster.world_mut().put_policy(policy);
    // The excerpt is unchanged and gives the same forecast.
    assert_eq!(forecast::forecast(&before, 100, &Calibrator::default()), made);
    let [b, c] = ["b", "c"].map(|name| id_of(cluster.snapshot().world, name));
    assert!(made.etas[&c].p50 < made.etas[&b].p50, "{made:?}");
    let after = forecast::forecast(&part(&cluster), 100, &Calibrator::default());
    assert!(after.etas[&b].p50 < after.etas[&c].p50, "{after:?}");
}

#[test]
fn a_reservation_may_name_a_removed_device() {
    let mut cluster = cluster(
        "node lab1 2 x h100-80g
         job a 1 running lab1[1] 1h limit 3h
         job b 1 pending 10m limit 2h
         job c 2 pending 5m limit 1h
         reserve r1 lab1[0] for uid 1001 begun 1h long 3h",
    );
    let mut node = cluster.snapshot().world.nodes()[0].node.clone();
    node.devices.remove(0);
    cluster.world_mut().put_node(node);
    let plan = cluster.cycle();
    let snapshot = cluster.snapshot();
    assert!(plan.decisions.is_empty());
    assert_eq!(gpool_verify::check(&snapshot), []);
    let found = gpool_verify::verify_fully(&snapshot, snapshot.world.policy(), &plan);
    assert_eq!(found, []);
    let before = part(&cluster);
    let made = forecast::forecast(&before, 100, &Calibrator::default());
    assert!(!made.is_broken);
    let [b, c] = ["b", "c"].map(|name| id_of(snapshot.world, name));
    assert!(made.etas[&b].p50.is_some(), "the other device is there: {made:?}");
    assert!(made.unknown.contains(&c), "no node has two any more: {made:?}");
    // The proposals name no missing device, and do not panic.
    let base = forecast::estimate(&before, b, 100, &Calibrator::default());
    let whose = forecast::Requester { uid: 1000, admin: true, leads: false };
    let all = forecast::alternatives(&before, b, whose, &base, 100, &Calibrator::default());
    assert!(all.iter().any(|tried| tried.what.code() == "ended" && tried.helps), "{all:?}");
    let in_vain = all.iter().find(|tried| tried.what.code() == "without_reservation");
    assert!(in_vain.is_some_and(|tried| !tried.helps), "{all:?}");
}
