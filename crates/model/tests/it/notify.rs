//! Tests of `notify`.

use gpool_model::job::state::JobState;
use gpool_model::notify::{Delivery, NotifyOn, host_of, origin_of};
use gpool_model::unit::Millis;

#[test]
fn origins_end_after_the_host() {
    for (url, origin) in [
        ("https://a.example/x/y?z", "https://a.example"),
        ("http://a.example:80?z", "http://a.example:80"),
        ("http://[::1]:9/x", "http://[::1]:9"),
        ("http://a", "http://a"),
    ] {
        assert_eq!(origin_of(url), origin);
    }
}

#[test]
fn hosts_ignore_scheme_and_port() {
    for (url, host) in [
        ("https://A.example/x", "a.example"),
        ("http://a.example.:80?z", "a.example"),
        ("http://[::1]:9/x", "[::1]"),
        ("http://[::1]", "[::1]"),
        ("mailto:ana@example.org", "mail"),
    ] {
        assert_eq!(host_of(url), host);
    }
}

#[test]
fn waits_add_up_to_a_day() {
    let all = Delivery::WAITS.iter().fold(Millis::ZERO, |sum, wait| sum.saturating_add(*wait));
    assert!(all >= Millis::from_hours(24) && all < Millis::from_hours(26), "{all:?}");
}

#[test]
fn every_final_state_can_trigger_a_notification() {
    for state in JobState::ALL.into_iter().filter(|state| state.is_end()) {
        assert!(NotifyOn::ALL.iter().any(|(_, on)| on.is_met_by(state)), "{state}");
    }
}
