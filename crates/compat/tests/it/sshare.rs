//! `sshare`: weights, recent usage and fair shares.

use gpool_compat::testing::sshare::{ShareLine, UsedByUser, decayed, lines};
use gpool_model::{Millis, Project as Stored, ProjectName, Timestamp};
use gpool_wire::usage::UsageRow;
use gpool_wire::{Project, ProjectFacts, Time};

use crate::sreport::quota;

fn project(name: &str, weight: f64) -> Project {
    let stored = Stored::open(ProjectName::new(name));
    Project { weight, ..Project::new(&stored, &ProjectFacts::default()) }
}

fn projects() -> Vec<Project> {
    [("default", 1.0), ("lab", 3.0), ("nlp", 1.0), ("vision", 1.0)]
        .map(|(name, weight)| project(name, weight))
        .to_vec()
}

fn used() -> UsedByUser {
    let row = |user: &str, hours: f64, start: u64| UsageRow {
        project: Some("nlp".to_owned()),
        user: Some(user.to_owned()),
        start: Time(Timestamp::new(start)),
        gpu_hours: hours,
        ..UsageRow::default()
    };
    // Half of the time counts after each half-life: 4 and 2 hours are 1 and 2.
    let (now, half_life) = (2 * 3_600_000, Millis::from_hours(1));
    decayed(&[row("ana", 4.0, 0), row("ben", 2.0, now)], half_life, Time(Timestamp::new(now)))
}

fn shown(line: &ShareLine) -> String {
    let ShareLine { account, user, weight, shares, used, part, level_part, fair, .. } = line;
    let user = user.as_deref().unwrap_or_default();
    format!("{account}|{user}|{weight}|{shares}|{used}|{part}|{level_part}|{fair:?}")
}

#[test]
fn projects_divide_shares_and_usage_at_each_level() {
    let lines: Vec<String> =
        lines(&quota(), &projects(), &used(), false).iter().map(shown).collect();
    assert_eq!(
        lines,
        [
            "root||1|1|40|1|0|Some(1.0)",
            "default||1|0.25|0|0|0|Some(0.0)",
            "lab||3|0.75|40|1|1|Some(1.0)",
            "nlp||1|0.375|30|0.75|0.75|Some(0.75)",
            "nlp|ana|parent|0.375|10|0.75|0.75|Some(0.75)",
            "nlp|ben|parent|0.375|20|0.75|0.75|Some(0.75)",
            "vision||1|0.375|10|0.25|0.25|Some(0.25)",
        ]
    );
}

#[test]
fn users_have_shares_where_the_policy_divides_between_them() {
    let lines = lines(&quota(), &projects(), &used(), true);
    assert_eq!(shown(&lines[5]), "nlp|ben|1|0.1875|20|0.5|0.6666666666666666|None");
}
