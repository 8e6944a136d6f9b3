//! Parses absolute and relative times in one zone: `18:00`, `fri 18:00`, `2026-11-20T15:30`,
//! `tomorrow`, `now+2h`, `2h ago`. It reads no clock: the caller passes the current time.
//! [`crate::render::clock`] writes times.

use gpool_cli::moment::{Lean, read};
use gpool_wire::Time;
use jiff::tz::TimeZone;

fn at(text: &str) -> Time {
    text.parse().expect(text)
}

fn check(zone: &TimeZone, lean: Lean, table: &[(&str, &str)]) {
    // A Friday.
    let now = at("2026-11-20T14:50:00Z");
    for (text, moment) in table {
        assert_eq!(read(text, now, zone, lean), Ok(at(moment)), "{text} {lean:?}");
    }
}

#[test]
fn moments_are_read_as_people_write_them() {
    let both = [
        ("now", "2026-11-20T14:50:00Z"),
        ("now+2h", "2026-11-20T16:50:00Z"),
        ("now + 90 minutes", "2026-11-20T16:20:00Z"),
        ("now+1hour", "2026-11-20T15:50:00Z"),
        ("now-1d", "2026-11-19T14:50:00Z"),
        ("in 2 days", "2026-11-22T14:50:00Z"),
        ("2h ago", "2026-11-20T12:50:00Z"),
        ("today", "2026-11-20T00:00:00Z"),
        ("Tomorrow", "2026-11-21T00:00:00Z"),
        ("tomorrow 08:00", "2026-11-21T08:00:00Z"),
        ("yesterday noon", "2026-11-19T12:00:00Z"),
        ("2026-11-19", "2026-11-19T00:00:00Z"),
        ("2026-11-19T10:00", "2026-11-19T10:00:00Z"),
        ("2026-11-19 10:00:07", "2026-11-19T10:00:07Z"),
        ("2026-11-19T10:00:00+01:00", "2026-11-19T09:00:00Z"),
    ];
    check(&TimeZone::UTC, Lean::Past, &both);
    check(&TimeZone::UTC, Lean::Future, &both);
}

#[test]
fn what_names_no_day_leans_one_way() {
    let past = [
        ("2h", "2026-11-20T12:50:00Z"),
        ("14:30", "2026-11-20T14:30:00Z"),
        ("15:30", "2026-11-19T15:30:00Z"),
        ("fri 18:00", "2026-11-13T18:00:00Z"),
        ("thursday", "2026-11-19T00:00:00Z"),
    ];
    check(&TimeZone::UTC, Lean::Past, &past);
    let future = [
        ("2h", "2026-11-20T16:50:00Z"),
        ("+30m", "2026-11-20T15:20:00Z"),
        ("15:30", "2026-11-20T15:30:00Z"),
        ("3:30 PM", "2026-11-20T15:30:00Z"),
        ("12am", "2026-11-21T00:00:00Z"),
        ("noon", "2026-11-21T12:00:00Z"),
        ("14:30", "2026-11-21T14:30:00Z"),
        ("fri 18:00", "2026-11-20T18:00:00Z"),
        ("fri", "2026-11-27T00:00:00Z"),
        ("tue 9am", "2026-11-24T09:00:00Z"),
    ];
    check(&TimeZone::UTC, Lean::Future, &future);
}

#[test]
fn the_zone_counts() {
    let zone = TimeZone::fixed(jiff::tz::offset(2));
    let future = [
        ("16:49", "2026-11-21T14:49:00Z"),
        ("16:51", "2026-11-20T14:51:00Z"),
        ("tomorrow", "2026-11-20T22:00:00Z"),
    ];
    check(&zone, Lean::Future, &future);
}

#[test]
fn what_is_no_moment_is_refused() {
    let now = at("2026-11-20T14:50:00Z");
    for text in [
        "",
        "2026",
        "25:99",
        "-1h",
        "99999999999999w",
        "now+60",
        "now+",
        "now 2h",
        "13pm",
        "24:00",
        "fri sat",
        "2026-02-30",
        "tomorrow 25:00",
        "t",
        "+",
        "1:2:3:4",
        "in",
        "ago",
        "9999-12-31T23:59+5h",
        "１５:30",
        "now+999999999999h",
        "1970-01-01T00:00-05:00x",
    ] {
        for lean in [Lean::Past, Lean::Future] {
            let error = read(text, now, &TimeZone::UTC, lean).expect_err(text);
            assert!(error.contains("for example"), "{error}");
        }
    }
    let error = read("60", now, &TimeZone::UTC, Lean::Future).expect_err("no unit");
    assert!(error.contains("needs a unit"), "{error}");
}
