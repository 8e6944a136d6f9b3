//! Tests of `idle`.

use gpool_device::{Activity, IdleWatch};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};

const QUIET: Activity = Activity { is_busy: Some(false), memory: Some(GIB), is_there: true };
const GIB: Bytes = Bytes::from_gib(1);

fn task() -> TaskId {
    "1#1/0".parse().unwrap()
}

fn at(second: u64) -> Timestamp {
    Timestamp::new(second * 1000)
}

/// Adds a look at device `a` each second.
fn looks(watch: &mut IdleWatch, seconds: std::ops::Range<u64>, seen: Activity) {
    for second in seconds {
        watch.add(task(), &DeviceUuid::new("a"), at(second), seen);
    }
}

fn since(watch: &IdleWatch) -> Option<Timestamp> {
    watch.since(task(), &[DeviceUuid::new("a")])
}

#[test]
fn a_task_is_idle_since_its_last_activity() {
    let mut watch = IdleWatch::default();
    assert_eq!(since(&watch), None);
    looks(&mut watch, 0..5, Activity { is_busy: Some(true), ..QUIET });
    assert_eq!(since(&watch), None);
    looks(&mut watch, 5..100, QUIET);
    assert_eq!(since(&watch), Some(at(5)));
    looks(&mut watch, 100..101, Activity { memory: Some(GIB.saturating_add(GIB)), ..QUIET });
    assert_eq!(since(&watch), None, "an allocation is activity");
    looks(&mut watch, 101..110, QUIET);
    assert_eq!(since(&watch), Some(at(102)), "and so is its end");
}

#[test]
fn a_use_that_no_sample_shows_counts() {
    let mut watch = IdleWatch::default();
    looks(&mut watch, 0..50, QUIET);
    watch.touch(task());
    assert_eq!(since(&watch), None);
    looks(&mut watch, 50..60, QUIET);
    assert_eq!(since(&watch), Some(at(50)));
}

#[test]
fn a_figure_that_is_unknown_is_never_idle() {
    let mut watch = IdleWatch::default();
    looks(&mut watch, 0..50, QUIET);
    looks(&mut watch, 50..51, Activity { is_busy: None, ..QUIET });
    assert_eq!(since(&watch), None);
    looks(&mut watch, 51..60, QUIET);
    assert_eq!(since(&watch), Some(at(51)));
    looks(&mut watch, 60..70, Activity { memory: None, ..QUIET });
    assert_eq!(since(&watch), None);
    looks(&mut watch, 70..71, QUIET);
    looks(&mut watch, 200..201, QUIET);
    assert_eq!(since(&watch), Some(at(200)), "nothing was seen between the two");
    looks(&mut watch, 100..101, QUIET);
    assert_eq!(since(&watch), Some(at(100)), "the clock was set back");
}

#[test]
fn a_task_that_has_not_begun_is_exempt_for_a_while() {
    let mut watch = IdleWatch::default();
    let nothing = Activity { memory: Some(Bytes::ZERO), is_there: false, ..QUIET };
    looks(&mut watch, 10..100, nothing);
    let bound = at(10).after(IdleWatch::START_UP);
    assert_eq!(since(&watch), Some(bound), "later than now");
    looks(&mut watch, 100..120, nothing);
    assert_eq!(since(&watch), Some(bound));
    looks(&mut watch, 120..121, Activity { is_busy: Some(true), ..nothing });
    looks(&mut watch, 121..130, nothing);
    assert_eq!(since(&watch), Some(at(121)), "it has begun");
    assert_eq!(IdleWatch::START_UP, Millis::from_mins(30));
}

#[test]
fn a_task_is_idle_once_all_its_devices_are() {
    let mut watch = IdleWatch::default();
    let all = ["a", "b"].map(DeviceUuid::new);
    for second in 0..50 {
        let is_busy = Some(second < 20);
        watch.add(task(), &all[0], at(second), QUIET);
        watch.add(task(), &all[1], at(second), Activity { is_busy, ..QUIET });
    }
    assert_eq!(watch.since(task(), &all), Some(at(20)));
    assert_eq!(watch.since(task(), &[]), None, "a task without devices");
    watch.retain(|_| false);
    assert_eq!(watch.since(task(), &all), None);
}
