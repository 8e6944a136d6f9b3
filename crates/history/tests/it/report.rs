//! Sums of GPU time.

use gpool_history::testing::{close, put_column, put_varint};
use gpool_history::{Batch, Dimension, History, ReportQuery, Span, Step, Totals, UNMANAGED, Use};

use crate::support::{Place, settle, span, start};

fn use_of<'a>(project: &'a str, user: &'a str, node: &'a str) -> Use<'a> {
    Use {
        project,
        user,
        model: "H100",
        kind: "batch",
        node,
        pool: "batch",
        job: "1",
        allocated_ms: 60_000,
        busy_ms: Some(30_000),
        useful_ms: None,
        energy_j: Some(6000),
        waited_ms: 0,
        guaranteed_ms: 0,
    }
}

fn write(history: &mut History, minute: u32, uses: &[Use<'_>]) {
    let now = start().after(minute);
    history.append(now, now, &Batch { uses, ..Batch::default() }).unwrap();
}

/// The sums by these properties: names and minutes of allocated time.
fn sums(history: &History, by: &[Dimension], range: Span) -> Vec<(String, u64)> {
    let report = ReportQuery { span: range, step: None, by, only: &[], n_groups: 100 };
    let rows = history.reader().report(&report).unwrap();
    let shown = |names: Option<Vec<String>>| names.map_or("others".to_owned(), |it| it.join(" "));
    let rows = rows.into_iter();
    rows.map(|row| (shown(row.names), row.totals.allocated_ms / 60_000)).collect()
}

#[test]
fn time_is_reported_by_each_property_before_and_after_sealing() {
    let place = Place::new();
    let mut history = place.open();
    for minute in 0..120 {
        let uses = [
            use_of("nlp", "ana", "n1"),
            use_of("nlp", "ana", "n1"),
            use_of("nlp", "bo", "n2"),
            use_of("vision", "bo", "n2"),
        ];
        write(&mut history, minute, &uses);
    }
    let both = span(start(), 120);
    let second = span(start().after(60), 60);
    for now in [120, 300] {
        settle(&mut history, start().after(now));
        let text = |name: &str, n: u64| (name.to_owned(), n);
        let found = sums(&history, &[Dimension::Project], both);
        assert_eq!(found, [text("nlp", 360), text("vision", 120)]);
        let found = sums(&history, &[Dimension::User, Dimension::Node], second);
        assert_eq!(found, [text("ana n1", 120), text("bo n2", 120)]);
        assert_eq!(sums(&history, &[], both), [text("", 480)]);

        // By hour, of one user, with one group named.
        let report = ReportQuery {
            span: both,
            step: Some(Step::HOUR),
            by: &[Dimension::Project],
            only: &[(Dimension::User, "bo")],
            n_groups: 1,
        };
        let rows = history.reader().report(&report).unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].names.as_deref(), Some(&["nlp".to_owned()][..]));
        assert_eq!((rows[1].names.as_ref(), rows[1].start), (None, start()));
        assert_eq!(rows[3].start, start().after(60));
        assert!(rows.iter().all(|row| row.totals.allocated_ms == 3_600_000));
        let node = ReportQuery { only: &[(Dimension::Node, "n1")], step: None, ..report.clone() };
        assert_eq!(history.reader().report(&node).unwrap()[0].totals.allocated_ms, 14_400_000);
        let none = ReportQuery { only: &[(Dimension::User, "eve")], ..report };
        assert_eq!(history.reader().report(&none).unwrap(), []);
    }
}

#[test]
fn time_without_a_measurement_is_not_idle() {
    let place = Place::new();
    let mut history = place.open();
    let unmeasured = Use { busy_ms: None, ..use_of("nlp", "ana", "n1") };
    write(&mut history, 0, &[unmeasured]);
    write(&mut history, 1, &[use_of("nlp", "ana", "n1")]);
    settle(&mut history, start().after(120));
    let report =
        ReportQuery { span: span(start(), 60), step: None, by: &[], only: &[], n_groups: 1 };
    let expected = Totals {
        allocated_ms: 120_000,
        busy_ms: 30_000,
        busy_of_ms: 60_000,
        energy_j: 12_000,
        energy_of_ms: 120_000,
        ..Totals::default()
    };
    assert_eq!(history.reader().report(&report).unwrap()[0].totals, expected);
}

#[test]
fn no_minute_counts_twice() {
    let place = Place::new();
    let mut history = place.open();
    let all = [Dimension::Project, Dimension::Node];
    let range = span(start(), 60);
    let one = [use_of("nlp", "ana", "n1")];
    write(&mut history, 5, &one);
    write(&mut history, 5, &one);
    assert_eq!(sums(&history, &all, range), [("nlp n1".to_owned(), 1)]);
    settle(&mut history, start().after(120));
    // After the hour was sealed: the same minute, and a late one of another node.
    let late = [use_of("nlp", "ana", "n1"), use_of("nlp", "ana", "n2")];
    let batch = Batch { uses: &late, ..Batch::default() };
    history.append(start().after(120), start().after(5), &batch).unwrap();
    for now in [120, 200] {
        settle(&mut history, start().after(now - 60));
        let found = sums(&history, &all, range);
        assert_eq!(found, [("nlp n1".to_owned(), 1), ("nlp n2".to_owned(), 1)]);
        assert_eq!(sums(&history, &[Dimension::User], range), [("ana".to_owned(), 2)]);
    }
}

#[test]
fn processes_outside_gpool_are_reported_by_system_user() {
    let place = Place::new();
    let mut history = place.open();
    let outside = Use {
        project: "",
        kind: "outside",
        allocated_ms: 0,
        busy_ms: Some(20_000),
        ..use_of("", "root", "n1")
    };
    write(&mut history, 0, &[outside, use_of("nlp", "ana", "n1")]);
    let report = ReportQuery {
        span: span(start(), 60),
        step: None,
        by: &[Dimension::User],
        only: &[(Dimension::Kind, "outside")],
        n_groups: 10,
    };
    let rows = history.reader().report(&report).unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].names.as_deref(), Some(&["root".to_owned()][..]));
    assert_eq!(rows[0].totals.busy_ms, 20_000);
}

#[test]
fn time_is_reported_by_pool_and_job_with_energy_and_waiting_time() {
    let place = Place::new();
    let mut history = place.open();
    let waiting = Use {
        node: "",
        pool: "",
        job: "",
        allocated_ms: 0,
        busy_ms: None,
        energy_j: None,
        waited_ms: 240_000,
        ..use_of("nlp", "ana", "")
    };
    for minute in 0..2 {
        let uses = [
            use_of("nlp", "ana", "n1"),
            Use { job: "2.7", energy_j: None, ..use_of("nlp", "bo", "n2") },
            waiting.clone(),
            Use { user: "", waited_ms: 0, guaranteed_ms: 480_000, ..waiting.clone() },
        ];
        write(&mut history, minute, &uses);
    }
    let range = span(start(), 60);
    for now in [2, 300] {
        settle(&mut history, start().after(now));
        let text = |name: &str, n: u64| (name.to_owned(), n);
        let found = sums(&history, &[Dimension::Job], range);
        assert_eq!(found, [text("1", 2), text("2.7", 2), text("", 0)]);
        assert_eq!(sums(&history, &[Dimension::Pool], range), [text("batch", 4), text("", 0)]);
        let only = &[(Dimension::Job, "1")][..];
        let report = ReportQuery { span: range, step: None, by: &[], only, n_groups: 1 };
        let guaranteed = ReportQuery { only: &[(Dimension::Project, "nlp")], ..report.clone() };
        let guaranteed = history.reader().report(&guaranteed).unwrap()[0].totals.guaranteed_ms;
        assert_eq!(guaranteed, 960_000);
        let totals = history.reader().report(&report).unwrap()[0].totals;
        assert_eq!((totals.energy_j, totals.energy_of_ms, totals.waited_ms), (12_000, 120_000, 0));
        let all = history.reader().report(&ReportQuery { only: &[], ..report }).unwrap()[0].totals;
        assert_eq!((all.energy_j, all.energy_of_ms, all.waited_ms), (12_000, 120_000, 480_000));
    }
}

/// Rows as an older version wrote them: five names, and five sums.
#[test]
fn time_of_an_older_version_is_reported_with_what_it_has() {
    let place = Place::new();
    let mut history = place.open();
    let hour = start().number() / 60;
    // The names get the numbers of the older rows: each is the first of its kind.
    write(&mut history, 120, &[use_of("nlp", "ana", "n1")]);
    let connection = rusqlite::Connection::open(place.path()).unwrap();
    let insert = |table: &str, id: i64, data: &[u8]| {
        let sql = format!("INSERT INTO {table} (id, data) VALUES (?1, ?2)");
        connection.execute(&sql, (id, data)).unwrap();
    };
    // A minute that waits to be sealed.
    let mut recent = Vec::new();
    for value in [7, 1, 1, 1, 1, 1, 60_000, 30_000, 60_000, 0, 0] {
        put_varint(&mut recent, value);
    }
    insert("recent", 3 << 60 | i64::from(hour + 1) << 38, &recent);
    // The same with pool, job, energy and waiting time.
    let mut recent = Vec::new();
    for value in [64 + 8, 1, 1, 1, 1, 1, 1, 1, 60_000, 30_000, 60_000, 0, 0, 0, 0, 0] {
        put_varint(&mut recent, value);
    }
    insert("recent", 3 << 60 | i64::from(hour + 1) << 38 | 1, &recent);
    // Sealed sums of an hour: by node, and of all nodes.
    for (level, node) in [(6, 1), (7, 0)] {
        let mut sums = Vec::new();
        put_varint(&mut sums, 1);
        for value in [1, 1, 1, 1, node, 1, 60_000, 30_000, 60_000, 0, 0] {
            put_column(&mut sums, 1, &|_| Some(value));
        }
        insert("block", level << 60 | i64::from(hour) << 32, &close(sums));
    }
    drop(connection);

    let text = |name: &str, n: u64| (name.to_owned(), n);
    for now in [121, 300] {
        settle(&mut history, start().after(now));
        let both = span(start(), 120);
        assert_eq!(sums(&history, &[Dimension::Project], both), [text("nlp", 3)]);
        let pools = [text("n1 ", 2), text("n1 batch", 1)];
        assert_eq!(sums(&history, &[Dimension::Node, Dimension::Pool], both), pools);
        let report = ReportQuery { span: both, step: None, by: &[], only: &[], n_groups: 1 };
        let totals = history.reader().report(&report).unwrap()[0].totals;
        assert_eq!((totals.busy_ms, totals.energy_j, totals.energy_of_ms), (90_000, 0, 0));
        assert_eq!(totals.guaranteed_ms, 0);
    }
}

#[test]
fn time_outside_gpool_is_a_group_of_its_own_for_each_user() {
    let place = Place::new();
    let mut history = place.open();
    for minute in 0..60 {
        let outside = Use { kind: UNMANAGED, project: "", job: "", ..use_of("", "ana", "n1") };
        write(
            &mut history,
            minute,
            &[use_of("nlp", "ana", "n1"), use_of("nlp", "bo", "n1"), outside],
        );
    }
    for now in [60, 240] {
        settle(&mut history, start().after(now));
        let range = span(start(), 60);
        let found = |by: &[Dimension]| {
            let report = ReportQuery { span: range, step: None, by, only: &[], n_groups: 100 };
            let rows = history.reader().report(&report).unwrap().into_iter();
            let one = |row: gpool_history::ReportRow| {
                (row.names.unwrap().join(" "), row.is_outside, row.totals.allocated_ms / 60_000)
            };
            let mut all: Vec<_> = rows.map(one).collect();
            all.sort();
            all
        };
        let row = |name: &str, is_outside: bool, n: u64| (name.to_owned(), is_outside, n);
        let by_user = [row("ana", false, 60), row("ana", true, 60), row("bo", false, 60)];
        assert_eq!(found(&[Dimension::User]), by_user);
        assert_eq!(found(&[Dimension::Node]), [row("n1", false, 180)]);
        let by_kind = [row("batch", false, 120), row("unmanaged", true, 60)];
        assert_eq!(found(&[Dimension::Kind]), by_kind);
    }
}
