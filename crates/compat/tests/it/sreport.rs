//! `sreport`: GPU time of the cluster, of accounts and of users.

use std::collections::BTreeMap;

use gpool_compat::testing::sreport::{self, Capacity, Cell, Unit, UsageLine};
use gpool_model::Timestamp;
use gpool_wire::usage::{GpuHistory, GpuPoints, UsageRow};
use gpool_wire::{QuotaOverview, QuotaRow, Time};

/// Two teams in a department, in the answer of the server.
pub fn quota() -> QuotaOverview {
    let row = |project: &str, parent: Option<&str>, used: f64, share: Option<f64>| QuotaRow {
        project: project.to_owned(),
        parent: parent.map(str::to_owned),
        depth: parent.map_or(0, |_| 1),
        department: project == "lab",
        guaranteed: serde_json::from_str("0").unwrap(),
        limit: None,
        share,
        held: 0.0,
        in_quota: 0.0,
        on_loan: 0.0,
        for_good: 0.0,
        used,
        borrows: Vec::new(),
        lends: Vec::new(),
        parts: Vec::new(),
        n_pending: 0,
        pending: 0.0,
    };
    QuotaOverview {
        projects: vec![
            row("default", None, 0.0, Some(0.0)),
            row("lab", None, 40.0, Some(4.0)),
            row("nlp", Some("lab"), 30.0, Some(3.0)),
            row("vision", Some("lab"), 10.0, Some(1.0)),
        ],
        gpus: 4.0,
        shared: true,
        returns: Vec::new(),
        warnings: Vec::new(),
    }
}

fn used(project: &str, user: &str, gpu_hours: f64) -> UsageRow {
    let (project, user) = (Some(project.to_owned()), Some(user.to_owned()));
    UsageRow { project, user, gpu_hours, ..UsageRow::default() }
}

fn rows() -> Vec<UsageRow> {
    vec![
        used("nlp", "ben", 2.0),
        used("nlp", "ana", 1.0),
        used("vision", "ana", 4.0),
        used("gone", "eva", 0.5),
    ]
}

fn shown(lines: &[UsageLine]) -> Vec<String> {
    let line = |line: &UsageLine| {
        let of = |cell: Cell| line.text(cell, Unit::read("Hours").unwrap(), 0.0);
        format!("{}|{}|{}", of(Cell::Account), of(Cell::Login), of(Cell::Used))
    };
    lines.iter().map(line).collect()
}

#[test]
fn accounts_have_the_time_of_the_accounts_below_them() {
    let lines = sreport::accounts(&rows(), &quota().projects, false);
    let expected = [
        "root||8",
        "lab||7",
        "nlp||3",
        "nlp|ana|1",
        "nlp|ben|2",
        "vision||4",
        "vision|ana|4",
        "gone||0",
        "gone|eva|0",
    ];
    assert_eq!(shown(&lines), expected);
    let tree = shown(&sreport::accounts(&rows(), &quota().projects, true));
    assert_eq!((&*tree[1], &*tree[2]), (" lab||7", "  nlp||3"));
    assert_eq!(sreport::accounts(&[], &quota().projects, false), []);
}

#[test]
fn users_have_a_line_for_each_account() {
    let lines = sreport::users(&rows());
    assert_eq!(shown(&lines), ["nlp|ana|1", "vision|ana|4", "nlp|ben|2", "gone|eva|0"]);
    assert_eq!(shown(&sreport::top(&rows(), 2, false)), ["vision|ana|4", "nlp|ben|2"]);
    assert_eq!(shown(&sreport::top(&rows(), 2, true)), ["nlp,vision|ana|5", "nlp|ben|2"]);
}

#[test]
fn the_cluster_divides_its_time_completely() {
    let point = |known: &[u8]| GpuPoints {
        allocated: known.iter().map(|it| (*it > 0).then_some(0.5)).collect(),
        ..GpuPoints::default()
    };
    // The second GPU came later, and was away for an hour; the last hour is not recorded yet.
    let gpus = vec![point(&[0, 1, 1, 1, 1, 0]), point(&[0, 0, 1, 0, 1, 0])];
    let history = GpuHistory { start: Time::default(), step_s: 3600, gpus };
    let capacity = Capacity::of(&history);
    let known = [(1, 3600.0), (2, 7200.0), (3, 3600.0), (4, 7200.0)];
    let by_hour: BTreeMap<u64, f64> = known.into();
    assert_eq!(capacity, Capacity { reported: 7.0 * 3600.0, down: 3600.0, by_hour });
    let row = |hour: u64, kind: &str, gpu_hours: f64, waited_gpu_hours: f64| UsageRow {
        start: Time(Timestamp::new(hour * 3_600_000)),
        kind: Some(kind.to_owned()),
        gpu_hours,
        waited_gpu_hours,
        ..UsageRow::default()
    };
    let line = sreport::cluster(
        &[
            row(2, "train", 1.5, 0.25),
            row(2, "unmanaged", 0.25, 0.0),
            // What waits in an hour is planned up to the idle time of that hour.
            row(3, "train", 0.5, 9.0),
            row(4, "unmanaged", 0.75, 0.0),
            row(4, "data", 0.5, 0.25),
        ],
        &capacity,
    );
    let text = |unit: &str| {
        let unit = Unit::read(unit).unwrap();
        let cells = [Cell::Used, Cell::Down, Cell::Idle, Cell::Planned, Cell::Reported];
        cells.map(|cell| line.text(cell, unit, capacity.reported)).join(" ")
    };
    assert_eq!(text("minutes"), "150 120 90 60 420");
    assert_eq!(text("percent"), "35.71% 28.57% 21.43% 14.29% 100.00%");
    assert_eq!(text("hourp").split(' ').next_back(), Some("7(100.00%)"));
    // A point of three hours belongs to each of them.
    let gpus = vec![point(&[1])];
    let history = GpuHistory { start: Time::default(), step_s: 3 * 3600, gpus };
    let capacity = Capacity::of(&history);
    let line = sreport::cluster(&[row(0, "train", 1.0, 2.0), row(2, "train", 0.0, 2.0)], &capacity);
    let cluster = line.cluster.unwrap();
    assert_eq!((cluster.planned, cluster.idle), (3600.0, 3600.0));
}

#[test]
fn units_may_be_cut_to_a_letter() {
    for (text, name) in [
        ("h", "TRES Hours"),
        ("Min", "TRES Minutes"),
        ("SecPer", "TRES Seconds/Percentage of Total"),
        ("p", "Percentage of Total"),
    ] {
        assert_eq!(Unit::read(text).map(Unit::name), Ok(name), "{text}");
    }
    assert!(Unit::read("days").is_err() && Unit::read("").is_err());
}
