//! Schedules the polls of devices. Polls have a cost: a list of processes takes milliseconds, and
//! the driver answers under a lock that jobs need too. The caller provides the time and makes the
//! calls.

use gpool_device::Schedule;
use gpool_model::{DeviceUuid, Millis, Timestamp};

fn processes_at(schedule: &mut Schedule, second: u32, watched: bool) -> (bool, bool, bool) {
    let uuid = DeviceUuid::new("GPU-a");
    let now = Timestamp::ZERO.after(Millis::from_secs(second));
    let wanted = schedule.take_polls(now, [&uuid], &|_| watched).remove(&uuid).unwrap_or_default();
    assert_eq!(wanted.detail, wanted.health, "both are due every five seconds");
    (wanted.usage, wanted.detail, wanted.processes)
}

#[test]
fn process_lists_are_polled_often_only_where_watched() {
    let mut schedule = Schedule::default();
    assert_eq!(processes_at(&mut schedule, 100, false), (true, true, true), "the first poll");
    assert_eq!(processes_at(&mut schedule, 101, false), (true, false, false));
    assert_eq!(processes_at(&mut schedule, 102, true), (true, false, true));
    assert_eq!(processes_at(&mut schedule, 103, true), (true, false, true));
    assert_eq!(processes_at(&mut schedule, 105, false), (true, true, false));
    assert_eq!(processes_at(&mut schedule, 111, false), (true, true, true));
    assert_eq!(processes_at(&mut schedule, 111, false), (false, false, false));
}

#[test]
fn a_clock_set_back_makes_everything_due() {
    let mut schedule = Schedule::default();
    processes_at(&mut schedule, 1000, false);
    assert_eq!(processes_at(&mut schedule, 10, false), (true, true, true));
}
