//! Waiting for several things at once.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::Shepherd;
use super::keeper::Keeper;

#[derive(Clone, Copy)]
enum Source {
    Signals,
    Link,
    Timer,
    Setup,
    Keeper,
    Output(usize),
    Beside,
}

/// The sources that are ready.
#[derive(Default)]
pub(super) struct Ready {
    pub signals: bool,
    pub link: bool,
    pub timer: bool,
    pub setup: bool,
    pub keeper: bool,
    pub outputs: [bool; 2],
    pub beside: bool,
}

impl Shepherd {
    /// Waits for an event, or until the connection must be retried.
    pub(super) fn wait(&self) -> Ready {
        let output = |which: usize| {
            let stream = self.outputs[which].as_ref().filter(|_| !self.beside.holds_up());
            (Source::Output(which), stream.map(|stream| stream.pipe().as_fd()))
        };
        let sources: [(Source, Option<BorrowedFd<'_>>); 7] = [
            (Source::Signals, Some(self.signals.as_fd())),
            (Source::Link, self.link.fd()),
            (Source::Timer, self.timer.as_ref().map(AsFd::as_fd)),
            (Source::Setup, self.setup.as_ref().map(|(fd, ..)| fd.as_fd())),
            (Source::Keeper, self.halt.keeper.as_ref().map(Keeper::fd)),
            output(0),
            output(1),
        ];
        let mut present: Vec<_> = sources
            .into_iter()
            .filter_map(|(source, fd)| Some((source, fd?, PollFlags::IN)))
            .collect();
        let beside = self.beside.wanted().into_iter();
        present.extend(beside.map(|(fd, flags)| (Source::Beside, fd, flags)));
        let mut polled: Vec<_> =
            present.iter().map(|(_, fd, flags)| PollFd::new(fd, *flags)).collect();
        let due_in = [self.link.retry_in(), self.beside.due_in()].into_iter().flatten().min();
        let timeout = due_in.map(|millis| Timespec {
            tv_sec: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(millis % 1000).unwrap_or(0) * 1_000_000,
        });
        let mut ready = Ready::default();
        // An interruption counts as a timeout.
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return ready;
        }
        ready.beside = self.beside.due_in() == Some(0);
        for ((source, ..), fd) in present.iter().zip(&polled) {
            if !fd.revents().is_empty() {
                ready.note(*source);
            }
        }
        ready
    }
}

impl Ready {
    fn note(&mut self, source: Source) {
        match source {
            Source::Signals => self.signals = true,
            Source::Link => self.link = true,
            Source::Timer => self.timer = true,
            Source::Setup => self.setup = true,
            Source::Keeper => self.keeper = true,
            Source::Output(which) => self.outputs[which] = true,
            Source::Beside => self.beside = true,
        }
    }
}
