//! Whether a person works with a Jupyter server.

use gpool_notebook::activity::{Activity, Session};

fn kernel(state: &str, at: &str) -> Session {
    let last_activity = format!("2026-01-01T{at}.000000Z");
    Session { execution_state: state.to_owned(), last_activity }
}

#[test]
fn a_silent_cell_is_busy_until_it_ends_and_is_reported_once_a_minute() {
    let mut activity = Activity::default();
    assert_eq!(activity.look(&[], 0), None, "a server without kernels is not busy");
    let idle = [kernel("idle", "10:00:00")];
    assert_eq!(activity.look(&idle, 2), Some(true), "a new kernel is activity");
    assert_eq!(activity.look(&idle, 4), Some(false));
    assert_eq!(activity.look(&idle, 400), None);
    // Jupyter does not change the time while a cell runs.
    let busy = [kernel("busy", "10:00:05"), kernel("idle", "09:00:00")];
    let reports: Vec<u64> =
        (402..580).step_by(2).filter(|at| activity.look(&busy, *at) == Some(true)).collect();
    assert_eq!(reports, [402, 462, 522]);
    assert_eq!(activity.look(&[kernel("idle", "10:05:00")], 580), None, "it has just ended");
    assert_eq!(activity.look(&[kernel("idle", "10:05:00")], 582), Some(false));
}

#[test]
fn a_kernel_that_is_gone_is_no_activity() {
    let mut activity = Activity::default();
    let both = [kernel("idle", "10:00:00"), kernel("idle", "11:00:00")];
    assert_eq!(activity.look(&both, 0), Some(true));
    assert_eq!(activity.look(&both[..1], 2), Some(false));
    assert_eq!(activity.look(&[], 4), None);
    assert_eq!(activity.look(&both, 6), None, "nothing newer than before");
}
