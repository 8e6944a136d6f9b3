//! The speed of virtual time in the view.

use std::time::Duration;

use gpool_lab::simulate::watch::pace::{Pace, Speed};
use gpool_model::{Millis, Timestamp};

const HOUR: Speed = Speed::PerSecond(Millis::from_hours(1));

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn hour(n: u64) -> Timestamp {
    Timestamp::new(n * 3_600_000)
}

#[test]
fn speeds_are_parsed_and_printed_alike() {
    assert_eq!("1h".parse(), Ok(HOUR));
    assert_eq!("max".parse(), Ok(Speed::Most));
    for text in ["", "0s", "fast", "-1h"] {
        assert!(text.parse::<Speed>().is_err(), "{text}");
    }
    let said = |text: &str| text.parse::<Speed>().expect("a speed").to_string();
    assert_eq!(said("24h"), "1d per second");
    assert_eq!(said("90m"), "90m per second");
    assert_eq!(said("500ms"), "500ms per second");
    assert_eq!(said("max"), "full speed");
}

#[test]
fn a_month_takes_about_a_minute() {
    assert_eq!(Speed::of_whole(Millis::from_hours(31 * 24)).to_string(), "12h per second");
    assert_eq!(Speed::of_whole(Millis::from_hours(24)).to_string(), "30m per second");
    assert_eq!(Speed::of_whole(Millis::ZERO).to_string(), "1s per second");
    assert_eq!(Speed::of_whole(Millis::new(u64::MAX)), Speed::Most);
}

#[test]
fn keys_lead_from_each_speed_to_the_next_and_back() {
    let mut speed = Speed::PerSecond(Millis::from_mins(90));
    let mut said = Vec::new();
    for _ in 0..3 {
        speed = speed.faster();
        said.push(speed.to_string());
    }
    speed = speed.slower();
    assert_eq!(said, ["2h per second", "3h per second", "6h per second"]);
    assert_eq!(speed.to_string(), "3h per second");
    for _ in 0..30 {
        speed = speed.faster();
    }
    assert_eq!(speed, Speed::Most);
    assert_eq!(speed.slower().to_string(), "30d per second");
    for _ in 0..30 {
        speed = speed.slower();
    }
    assert_eq!(speed.to_string(), "1s per second");
}

#[test]
fn time_is_waited_for_and_not_caught_up_with() {
    let mut pace = Pace::new(HOUR);
    pace.go_from(hour(5), ms(1000));
    assert_eq!(pace.wait(hour(5), ms(1000)), None);
    assert_eq!(pace.wait(hour(7), ms(1500)), Some(ms(1500)));
    assert_eq!(pace.now(hour(7), ms(2000)), hour(6));
    // A small delay is caught up.
    assert_eq!(pace.wait(hour(7), ms(3100)), None);
    assert_eq!(pace.wait(hour(8), ms(3100)), Some(ms(900)));
    // A large delay is not.
    assert_eq!(pace.wait(hour(8), ms(9000)), None);
    assert_eq!(pace.wait(hour(9), ms(9000)), Some(ms(1000)));
}

#[test]
fn nothing_passes_in_a_pause_and_all_goes_on_from_there() {
    let mut pace = Pace::new(HOUR);
    pace.go_from(hour(0), ms(0));
    pace.pause(hour(9), ms(2000));
    assert_eq!(pace.wait(hour(9), ms(60_000)), Some(Duration::MAX));
    assert_eq!(pace.now(hour(9), ms(60_000)), hour(2));
    pace.pause(hour(9), ms(60_000));
    assert_eq!(pace.wait(hour(9), ms(60_000)), Some(ms(7000)));
    pace.faster(hour(9), ms(61_000));
    assert_eq!(pace.wait(hour(9), ms(61_000)), Some(ms(3000)));
    // At full speed nothing waits.
    let mut pace = Pace::new(Speed::Most);
    assert_eq!(pace.wait(hour(9), ms(5)), None);
    pace.slower(hour(9), ms(10));
    assert_eq!(pace.now(hour(10), ms(10)), hour(9));
}
