//! Expected starts of jobs, in short form.

use gpool_cli::render::clock::Clock;
use gpool_cli::render::eta::{interval, likely};
use gpool_cli::render::view::View;
use gpool_wire::{Eta, Time};

fn at(text: &str) -> Time {
    text.parse().expect(text)
}

fn eta(p10: Option<&str>, p50: Option<&str>, p90: Option<&str>) -> Eta {
    let as_of = at("2026-11-20T14:50:00Z");
    Eta {
        p10: p10.map(at),
        p50: p50.map(at),
        p90: p90.map(at),
        basis: "limit".to_owned(),
        as_of,
        later_than: p90.is_none().then(|| at("2026-11-22T14:50:00Z")),
        planned_at: None,
    }
}

#[test]
fn intervals_say_each_thing_once() {
    let clock = Clock::new(true);
    let view = View { clock: &clock, now: at("2026-11-20T14:50:00Z"), me: "ana" };
    let (early, middle, late) =
        ("2026-11-20T15:30:00Z", "2026-11-20T15:52:00Z", "2026-11-20T16:09:00Z");
    let today = eta(Some(early), Some(middle), Some(late));
    assert_eq!(interval(&today, &view), "15:30–16:09");
    assert_eq!(likely(&today, &view), "Expected start today 15:30–16:09 (in about 1h02)");
    let (two, five) = ("2026-11-21T02:00:00Z", "2026-11-21T05:00:00Z");
    assert_eq!(interval(&eta(Some(two), Some(two), Some(five)), &view), "Sat 02:00–05:00");
    assert_eq!(interval(&eta(None, None, None), &view), "> 48 h");
    assert_eq!(interval(&eta(Some(early), None, None), &view), "from 15:30");
    let now = "2026-11-20T14:50:00Z";
    assert_eq!(interval(&eta(Some(now), Some(now), Some(now)), &view), "now");
    assert_eq!(interval(&eta(Some(early), Some(early), Some(early)), &view), "15:30");
}
