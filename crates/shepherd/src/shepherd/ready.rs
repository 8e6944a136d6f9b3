//! Waiting for several things at once.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use super::Shepherd;
use super::keeper::Keeper;

#[derive(Clone, Copy)]
enum PollSource {
    Signals,
    Link,
    Timer,
    Setup,
    Keeper,
    Output(usize),
    ClientStreams,
}

#[derive(Default)]
pub(super) struct Ready {
    pub signals: bool,
    pub link: bool,
    pub timer: bool,
    pub setup: bool,
    pub keeper: bool,
    pub outputs: [bool; 2],
    pub client_streams: bool,
}

impl Shepherd {
    /// Waits for an event, or until the connection must be retried.
    pub(super) fn wait(&self) -> Ready {
        let output = |which: usize| {
            let stream = self.outputs[which].as_ref().filter(|_| !self.client_streams.holds_up());
            (PollSource::Output(which), stream.map(|stream| stream.pipe().as_fd()))
        };
        let sources: [(PollSource, Option<BorrowedFd<'_>>); 7] = [
            (PollSource::Signals, Some(self.signals.as_fd())),
            (PollSource::Link, self.link.fd()),
            (PollSource::Timer, self.timer.as_ref().map(AsFd::as_fd)),
            (PollSource::Setup, self.setup.as_ref().map(|(fd, ..)| fd.as_fd())),
            (PollSource::Keeper, self.halt.keeper.as_ref().map(Keeper::fd)),
            output(0),
            output(1),
        ];
        let mut present: Vec<_> = sources
            .into_iter()
            .filter_map(|(source, fd)| Some((source, fd?, PollFlags::IN)))
            .collect();
        let beside = self.client_streams.poll_fds().into_iter();
        present.extend(beside.map(|(fd, flags)| (PollSource::ClientStreams, fd, flags)));
        let mut polled: Vec<_> =
            present.iter().map(|(_, fd, flags)| PollFd::new(fd, *flags)).collect();
        let due_in =
            [self.link.retry_in(), self.client_streams.due_in()].into_iter().flatten().min();
        let timeout = due_in.map(|millis| Timespec {
            tv_sec: i64::try_from(millis / 1000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(millis % 1000).unwrap_or(0) * 1_000_000,
        });
        let mut ready = Ready::default();
        // An interruption counts as a timeout.
        if poll(&mut polled, timeout.as_ref()).is_err() {
            return ready;
        }
        ready.client_streams = self.client_streams.due_in() == Some(0);
        for ((source, ..), fd) in present.iter().zip(&polled) {
            if !fd.revents().is_empty() {
                ready.note(*source);
            }
        }
        ready
    }
}

impl Ready {
    fn note(&mut self, source: PollSource) {
        match source {
            PollSource::Signals => self.signals = true,
            PollSource::Link => self.link = true,
            PollSource::Timer => self.timer = true,
            PollSource::Setup => self.setup = true,
            PollSource::Keeper => self.keeper = true,
            PollSource::Output(which) => self.outputs[which] = true,
            PollSource::ClientStreams => self.client_streams = true,
        }
    }
}
