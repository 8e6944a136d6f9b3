//! One line on standard error while a command works without output.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::screen::Screen;

/// Time after which the line appears.
const QUIET: Duration = Duration::from_secs(2);
/// Interval at which it is updated.
const STEP: Duration = Duration::from_secs(1);

/// Does the work. If it takes long, a terminal shows its name and the elapsed time:
/// `checking the store… 5 s`. The line is removed at the end.
pub fn during<T>(screen: &Screen, what: &str, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        scope.spawn(move || {
            let mut wait = QUIET;
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                screen.progress(&format!("{what}… {} s", began.elapsed().as_secs()));
                wait = STEP;
            }
            if wait == STEP {
                screen.progress("");
            }
        });
        let done = work();
        drop(end);
        done
    })
}
