//! Situations with a waiting job, its reasons in order and the changes that would let it
//! start sooner. The test makes each of these changes with other code and plays the cluster out:
//! the job starts at the predicted time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpool_control::forecast::{self, Calibrator, ForecastInput, Pace, Requester, Tried};
use gpool_model::{JobId, Millis, Timestamp};
use gpool_scenario::{Cluster, Situation};
use gpool_sched::Explainer;

use crate::rig::{cluster, id_of, words};
use crate::{play, table};

const N_STARTS: usize = 400;

/// A situation with a waiting job `x`.
pub struct Row {
    pub name: &'static str,
    /// The codes of its reasons, the decisive ones first.
    pub codes: &'static [&'static str],
    pub scenario: &'static str,
}

fn codes(cluster: &Cluster, job: JobId) -> Vec<&'static str> {
    let snapshot = cluster.snapshot();
    let explainer = Explainer::new(snapshot, snapshot.world.policy());
    let row = snapshot.world.job(job).expect("it waits");
    explainer.fully(row).iter().map(gpool_model::Reason::code).collect()
}

/// Returns when the job starts if every job ends at its median, by other code than the forecast's.
fn played(
    situation: &Situation,
    lengths: &BTreeMap<JobId, Millis>,
    job: JobId,
) -> Option<Timestamp> {
    let until = situation.now.after(forecast::HORIZON);
    play::starts(situation, lengths, until).get(&job).copied()
}

fn shown(tried: &Tried, part: &ForecastInput, job: JobId) -> String {
    let sign = if tried.helps { '+' } else { '-' };
    let flags = gpool_wire::alternative::flags(&tried.what, job);
    let eta = tried.eta.map(|eta| format!(": {}", words(&eta, part.now))).unwrap_or_default();
    format!("  {sign} {flags}{eta}\n")
}

/// Returns the whole report on one situation; panics where a counterfactual does not come true.
fn checked(row: &Row) -> String {
    let cluster = cluster(row.scenario);
    let job = id_of(cluster.snapshot().world, "x");
    assert_eq!(codes(&cluster, job), row.codes, "{}", row.name);
    let part = ForecastInput::of(&cluster.snapshot(), 200, Some(job));
    let learnt = Calibrator::default();
    let base = forecast::estimate(&part, job, N_STARTS, &learnt);
    let whose = Requester { uid: 1000, admin: true, leads: false };
    let all = forecast::alternatives(&part, job, whose, &base, N_STARTS, &learnt);
    let situation = Situation::of(&cluster.snapshot());
    let lengths: BTreeMap<JobId, Millis> =
        part.lengths.iter().map(|(id, length)| (*id, length.at(Pace::Middle))).collect();
    assert_eq!(base.middle, played(&situation, &lengths, job), "{}: as it is", row.name);
    let mut text = format!("{}\n", row.name);
    let eta = base.eta.map_or_else(|| "unknown".to_owned(), |eta| words(&eta, part.now));
    let _ = writeln!(text, "  {eta}");
    for tried in &all {
        let mut lengths = lengths.clone();
        let other = play::changed(&situation, &mut lengths, &tried.what, job);
        let truth = played(&other, &lengths, job);
        assert_eq!(tried.middle, truth, "{}: {:?}\n{other}", row.name, tried.what);
        let is_sooner = match (base.middle, truth) {
            (Some(before), Some(after)) => before.since(after) >= forecast::WORTHWHILE,
            (before, after) => before.is_none() && after.is_some(),
        };
        assert_eq!(tried.helps, is_sooner, "{}: {:?}", row.name, tried.what);
        text.push_str(&shown(tried, &part, job));
    }
    text
}

#[test]
fn every_reason_is_named_and_every_counterfactual_comes_true() {
    assert!(table::ROWS.len() >= 40, "{} situations", table::ROWS.len());
    let text: String = table::ROWS.iter().map(checked).collect();
    insta::assert_snapshot!(text);
}

#[test]
fn changes_that_the_user_can_not_make_are_not_proposed() {
    let cluster = cluster(
        "node lab1 2 x h100-80g
         job a 2 running lab1[0,1] 1h limit 3h uid 1001
         job b 1 pending uid 1001 priority 5
         job x 2 pending uid 1002",
    );
    let job = id_of(cluster.snapshot().world, "x");
    let part = ForecastInput::of(&cluster.snapshot(), 200, Some(job));
    let base = forecast::estimate(&part, job, N_STARTS, &Calibrator::default());
    let whose = Requester { uid: 1002, admin: false, leads: false };
    let all = forecast::alternatives(&part, job, whose, &base, N_STARTS, &Calibrator::default());
    assert!(all.iter().all(|tried| !matches!(tried.what.code(), "ended" | "priority")), "{all:?}");
    assert!(all.iter().any(|tried| tried.what.code() == "gpus"), "{all:?}");
}
