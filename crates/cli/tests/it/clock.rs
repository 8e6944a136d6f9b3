//! Writes times and lengths of time for people, in local time with its zone, or in UTC on request.
//! `moment.rs` parses times in the same zone.

use gpool_cli::render::clock::Clock;
use gpool_wire::Time;

fn at(text: &str) -> Time {
    text.parse().expect(text)
}

#[test]
fn moments_are_as_short_as_they_can_be() {
    let clock = Clock::new(true);
    let now = at("2026-11-20T14:50:00Z");
    assert_eq!(clock.short(at("2026-11-20T15:30:00Z"), now), "15:30");
    assert_eq!(clock.short(at("2026-11-22T15:30:00Z"), now), "Sun 15:30");
    assert_eq!(clock.short(at("2026-12-24T15:30:00Z"), now), "2026-12-24");
    assert_eq!(clock.full(now), "2026-11-20 14:50:00 UTC");
}
