//! After the summary, a demo on a terminal goes on until the user ends it: jobs keep coming, and
//! the dashboard and other commands show a cluster at work.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

use gpool_cli::failure::Result;
use gpool_cli::screen::Screen;
use gpool_client::Client;
use gpool_model::job::JobState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::load;
use super::watch;

/// Submits jobs while fewer than this wait.
const WAITING_MIN: usize = 4;

/// Submits jobs until the user presses Enter or interrupts. Without a terminal it does nothing.
pub fn until_enter(
    client: &Client,
    n_free: u32,
    interrupted: &AtomicBool,
    screen: &Screen,
) -> Result<()> {
    if !screen.is_terminal() || !std::io::stdin().is_terminal() {
        return Ok(());
    }
    screen.data("\nJobs keep coming. Press Enter to end the demo.\n")?;
    let (mut ids, mut n_submitted) = (Vec::new(), 0);
    while !interrupted.load(Ordering::Relaxed) && !enter_pressed() {
        let mut jobs = watch::jobs(client, &ids)?;
        jobs.retain(|job| !job.state.is_end());
        ids = jobs.iter().map(|job| job.id.clone()).collect();
        if jobs.iter().filter(|job| job.state == JobState::Pending).count() < WAITING_MIN {
            ids.push(load::submit_another(client, n_submitted, n_free)?);
            n_submitted += 1;
        }
    }
    Ok(())
}

/// Waits a little; whether the user pressed Enter or closed the input.
fn enter_pressed() -> bool {
    let stdin = std::io::stdin();
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
    // An interrupted wait is repeated by the caller.
    poll(&mut watched, Some(&wait)).is_ok_and(|n_ready| n_ready > 0)
}
