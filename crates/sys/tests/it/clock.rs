//! The two clocks: wall-clock time for users, and boot time for durations.

use gpool_sys::clock::boot_ticks;

#[test]
fn a_process_starts_between_the_ticks_before_and_after() {
    let before = boot_ticks();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let started = gpool_sys::proc::stat(child.id()).unwrap().started;
    let after = boot_ticks();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!((before..=after).contains(&started), "{before} {started} {after}");
}
