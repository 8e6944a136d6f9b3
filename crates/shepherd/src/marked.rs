//! The processes of a run by its mark, which each of them has in its first environment.

use gpool_model::id::TaskId;
use gpool_sys::{pidfd, proc};
use rustix::process::Signal;

use crate::environment::mark;
use crate::layout::Layout;

/// Kills processes that started with the environment of this run, not before `since` in ticks since
/// boot. Returns whether there were any.
pub fn kill(layout: &Layout, task: TaskId, since: u64) -> bool {
    let mark = mark(&layout.attempt(task));
    let rank = task.rank.to_string();
    let me = std::process::id();
    let is_left = |pid: u32| {
        // A process that started before the claim can't belong to the task.
        proc::stat(pid).is_some_and(|stat| stat.started >= since && stat.state != b'Z')
            && proc::started_with(pid, &mark)
            // Tasks of one gang share a folder. A process without a rank belongs to the first task.
            && proc::variable_at_start(pid, "GPOOL_RANK").is_none_or(|it| it == rank.as_bytes())
    };
    let mut found = false;
    for pid in proc::all().into_iter().filter(|pid| *pid != me && is_left(*pid)) {
        found = true;
        let Ok(Some(process)) = pidfd::open(pid) else { continue };
        // Checked again after opening: the process ID may have been reused.
        if is_left(pid) {
            let _ = pidfd::signal(&process, Signal::KILL.as_raw());
        }
    }
    found
}
