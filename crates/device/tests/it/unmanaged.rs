//! Finds processes on a device that belong to no job, and decides when the device is clean again.
//! Pure: the caller provides lists and time.

use std::collections::BTreeSet;

use gpool_device::{Belongs, Ignore, UnmanagedGrace, sort_processes};
use gpool_model::device::DeviceProcess;
use gpool_model::{DeviceUuid, Millis, Timestamp};

fn process(pid: u32, name: &str) -> DeviceProcess {
    let name = Some(name.to_string());
    DeviceProcess { pid, user: None, name, memory: None, seen_since: Timestamp::ZERO }
}

fn at(second: u32) -> Timestamp {
    Timestamp::ZERO.after(Millis::from_secs(second))
}

#[test]
fn processes_are_expected_strays_or_unmanaged() {
    let all = [process(1, "ours"), process(2, "ours"), process(3, "python")];
    let belongs = |pid| match pid {
        1 => Belongs::Here,
        2 => Belongs::Elsewhere,
        _ => Belongs::Nobody,
    };
    let sorted = sort_processes(&all, &belongs, &Ignore::default());
    assert_eq!(sorted.strays, [all[1].clone()]);
    assert_eq!(sorted.unmanaged, [all[2].clone()]);
}

#[test]
fn ignoring_matches_whole_names_and_pids_and_never_hides_a_stray() {
    let all = [process(1, "Xorg"), process(2, "Xorg2"), process(3, "python"), process(4, "Xorg")];
    let belongs = |pid| if pid == 4 { Belongs::Elsewhere } else { Belongs::Nobody };
    let ignore = Ignore { names: BTreeSet::from(["Xorg".to_string()]), pids: BTreeSet::from([3]) };
    let sorted = sort_processes(&all, &belongs, &ignore);
    assert_eq!(sorted.unmanaged, [all[1].clone()]);
    assert_eq!(sorted.strays, [all[3].clone()]);
}

#[test]
fn a_device_is_clean_after_the_grace_period() {
    let mut grace = UnmanagedGrace::default();
    let gpu = DeviceUuid::new("GPU-a");
    assert!(grace.observe(&gpu, vec![], at(0)).is_empty(), "clean from the start is clean");
    assert_eq!(grace.observe(&gpu, vec![process(3, "python")], at(1)).len(), 1);
    assert_eq!(grace.observe(&gpu, vec![], at(10)).len(), 1, "the first clean poll");
    assert_eq!(grace.observe(&gpu, vec![], at(14)).len(), 1);
    assert_eq!(grace.observe(&gpu, vec![process(4, "sh")], at(14))[0].pid, 4);
    assert_eq!(grace.observe(&gpu, vec![], at(15)).len(), 1, "the grace starts anew");
    assert_eq!(grace.observe(&gpu, vec![], at(19)).len(), 1);
    assert!(grace.observe(&gpu, vec![], at(20)).is_empty());
}

#[test]
fn a_clock_set_back_keeps_a_clean_device_for_one_grace_more() {
    let mut grace = UnmanagedGrace::default();
    let gpu = DeviceUuid::new("GPU-a");
    grace.observe(&gpu, vec![process(3, "python")], at(4000));
    assert_eq!(grace.observe(&gpu, vec![], at(4001)).len(), 1);
    assert_eq!(grace.observe(&gpu, vec![], at(402)).len(), 1, "the clock was set back");
    assert!(grace.observe(&gpu, vec![], at(407)).is_empty());
}
