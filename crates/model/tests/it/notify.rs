//! Tests of `notify`.

use gpool_model::job::state::JobState;
use gpool_model::notify::{Delivery, NotifyOn, host_of, origin_of};
use gpool_model::unit::Millis;

#[test]
fn what_may_be_shown_of_an_address_ends_with_its_host() {
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
fn a_host_is_the_same_by_each_scheme_and_port() {
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
fn attempts_go_on_for_a_day() {
    let all = Delivery::WAITS.iter().fold(Millis::ZERO, |sum, wait| sum.saturating_add(*wait));
    assert!(all >= Millis::from_hours(24) && all < Millis::from_hours(26), "{all:?}");
}

#[test]
fn every_end_of_a_job_is_told_by_some_word() {
    for state in JobState::ALL.into_iter().filter(|state| state.is_end()) {
        assert!(NotifyOn::ALL.iter().any(|(_, on)| on.is_met_by(state)), "{state}");
    }
}
