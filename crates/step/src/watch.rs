//! Waits for the processes of a step: forwards signals, ends the others if one has failed, and
//! computes the exit code.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_model::job::Usage;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;

use crate::plan::Plan;
use crate::pmi::Pmi;
use crate::wire::{self, FromHost, Hello, ToHost};

/// Time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(30);
/// The exit code of a process that could not be started, as in a shell.
const NOT_STARTED: i32 = 127;
/// The exit code of a process with an unknown end.
const LOST: i32 = 137;
/// How long a host may take to record the step.
const RECORD: Duration = Duration::from_secs(5);

pub enum Happening {
    Host(Hello, UnixStream),
    /// The host of this rank can't be started, or has ended.
    NoHost(u32, String),
    /// A message of the host with this index.
    Message(usize, FromHost),
    /// The host with this index has gone.
    HostLost(usize),
    /// This program got a signal; the second number is its sender.
    Signal(i32, u32),
    /// A part of the step has ended, with its exit code.
    Part(usize, u8),
}

/// The conditions that end a step early.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndConditions {
    /// Whether the first failing process ends the others.
    pub kill_on_bad_exit: bool,
    /// Time for the others after the first process has ended.
    pub wait: Option<Duration>,
}

/// Reads signals as data instead of ending by them.
pub fn catch_signals(tell: Sender<Happening>) -> Result<()> {
    let caught = [
        Signal::INT,
        Signal::TERM,
        Signal::HUP,
        Signal::QUIT,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
    ];
    let failed = |error| Failure::new(errors::INTERNAL, format!("can't catch signals: {error}"));
    let watched = gpool_sys::signal::watch(&caught.map(Signal::as_raw)).map_err(failed)?;
    std::thread::spawn(move || {
        loop {
            let _ = poll(&mut [PollFd::new(&watched, PollFlags::IN)], None);
            for (number, from) in gpool_sys::signal::take_from(&watched).unwrap_or_default() {
                if tell.send(Happening::Signal(number, from)).is_err() {
                    return;
                }
            }
        }
    });
    Ok(())
}

/// A connected host, with the GPUs of its task.
type Connected = (UnixStream, Vec<String>);

/// Waits for all hosts of a plan; returns them with their GPUs, in the order of the plan.
///
/// # Errors
/// A host can't be started. If a signal arrives first, the inner result is the exit code.
pub fn gather(
    plan: &Plan,
    happenings: &Receiver<Happening>,
) -> Result<std::result::Result<Vec<Connected>, Exit>> {
    let mut found: BTreeMap<u32, Connected> = BTreeMap::new();
    while found.len() < plan.hosts.len() {
        match happenings.recv().map_err(|_| nobody())? {
            Happening::Host(hello, stream) => {
                found.entry(hello.rank).or_insert((stream, hello.gpus));
            }
            Happening::NoHost(rank, why) if !found.contains_key(&rank) => {
                let node = plan.hosts.iter().find(|host| host.rank == rank);
                let node = node.map_or("?", |host| host.node.as_str());
                let what = format!("srun: can't start processes on {node}");
                return Err(Failure::new(errors::EXEC_NOT_STARTED, what).why(why));
            }
            Happening::Signal(number, _) => return Ok(Err(exit(128 + number))),
            Happening::NoHost(..)
            | Happening::Message(..)
            | Happening::HostLost(_)
            | Happening::Part(..) => {}
        }
    }
    let mut take = |rank: u32| found.remove(&rank).ok_or_else(nobody);
    plan.hosts.iter().map(|host| take(host.rank)).collect::<Result<_>>().map(Ok)
}

pub struct RunningStep<'s> {
    plan: &'s Plan,
    session: &'s Session,
    limits: EndConditions,
    hosts: Vec<Arc<UnixStream>>,
    /// The exit code of each ended process.
    codes: Vec<Option<i32>>,
    /// What the processes of each ended host used.
    usages: Vec<Option<Usage>>,
    /// How its processes find each other.
    pmi: Pmi,
    kill_at: Option<Instant>,
    /// When the step asks all processes to end.
    end_at: Option<Instant>,
}

impl<'s> RunningStep<'s> {
    /// A step on hosts that have started its processes.
    pub fn new(
        plan: &'s Plan,
        session: &'s Session,
        limits: EndConditions,
        hosts: Vec<UnixStream>,
        tell: &Sender<Happening>,
    ) -> Self {
        let hosts: Vec<Arc<UnixStream>> = hosts.into_iter().map(Arc::new).collect();
        for (at, host) in hosts.iter().enumerate() {
            let (host, tell) = (Arc::clone(host), tell.clone());
            std::thread::spawn(move || {
                while let Ok(said) = wire::receive(&host) {
                    if tell.send(Happening::Message(at, said)).is_err() {
                        return;
                    }
                }
                let _ = tell.send(Happening::HostLost(at));
            });
        }
        let codes = vec![None; plan.processes.len()];
        let usages = vec![None; hosts.len()];
        let pmi = Pmi::new(u32::try_from(codes.len()).unwrap_or(u32::MAX));
        Self { plan, session, limits, hosts, codes, usages, pmi, kill_at: None, end_at: None }
    }

    /// Waits until all processes have ended; returns the highest exit code and their usage.
    ///
    /// # Errors
    /// Only for an internal error.
    pub fn stay(&mut self, happenings: &Receiver<Happening>) -> Result<(i32, Usage)> {
        while self.codes.iter().any(Option::is_none) || self.usages.iter().any(Option::is_none) {
            let due = self.kill_at.into_iter().chain(self.end_at).min();
            let happening = match due {
                None => happenings.recv().map_err(|_| nobody())?,
                Some(due) => {
                    match happenings.recv_timeout(due.saturating_duration_since(Instant::now())) {
                        Ok(happening) => happening,
                        Err(RecvTimeoutError::Timeout) => {
                            self.on_time();
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) => return Err(nobody()),
                    }
                }
            };
            match happening {
                Happening::Message(_, FromHost::Ended(rank, code)) => self.ended(rank, code, None),
                Happening::Message(_, FromHost::NotStarted(rank, why)) => {
                    self.ended(rank, NOT_STARTED, Some(&why));
                }
                Happening::Message(at, FromHost::Used(usage)) => self.usages[at] = Some(usage),
                Happening::Message(_, FromHost::Pmi(rank, line)) => self.on_pmi(rank, &line),
                Happening::HostLost(at) => self.on_host_lost(at),
                Happening::Signal(number, from) => self.on_signal(number, from),
                Happening::Message(_, FromHost::NotRecorded(_))
                | Happening::Host(..)
                | Happening::NoHost(..)
                | Happening::Part(..) => {}
            }
        }
        let usage = self.usages.iter().flatten().fold(Usage::default(), |sum, it| sum.plus(*it));
        Ok((self.codes.iter().flatten().copied().max().unwrap_or(0), usage))
    }

    /// Lets the first host record the ended step in its task, and waits until it has.
    pub fn record(&self, line: String, happenings: &Receiver<Happening>) {
        if wire::send(&self.hosts[0], &ToHost::Record(line)).is_ok() {
            let until = Instant::now() + RECORD;
            let left = || until.saturating_duration_since(Instant::now());
            loop {
                match happenings.recv_timeout(left()) {
                    Ok(Happening::HostLost(0)) => break,
                    Ok(Happening::Message(_, FromHost::NotRecorded(why))) => {
                        crate::record::note_missing(&why, self.session);
                    }
                    Ok(_) => {}
                    Err(_) => {
                        crate::record::note_missing("its task does not answer", self.session);
                        break;
                    }
                }
            }
        }
    }

    fn ended(&mut self, rank: u32, code: i32, why: Option<&str>) {
        let Some(place) = usize::try_from(rank).ok().filter(|at| *at < self.codes.len()) else {
            return;
        };
        if self.codes[place].replace(code).is_some() {
            return;
        }
        if self.pmi.has_left(rank) && self.kill_at.is_none() {
            self.session.screen.note(&format!(
                "srun: error: task {rank} ended within an MPI program; ending the others"
            ));
            self.end();
        }
        if let Some(wait) = self.limits.wait {
            self.end_at.get_or_insert_with(|| Instant::now() + wait);
        }
        if code == 0 {
            return;
        }
        let node = &self.plan.hosts[self.plan.processes[place].host].node;
        let text = match why {
            Some(why) => why.to_owned(),
            None if code > 128 => format!("ended by signal {}", code - 128),
            None => format!("exited with exit code {code}"),
        };
        self.session.screen.note(&format!("srun: error: {node}: task {rank}: {text}"));
        if self.limits.kill_on_bad_exit && self.kill_at.is_none() {
            self.session.screen.note("srun: ending the other tasks of the step");
            self.end();
        }
    }

    /// Answers a request of a process, or ends the program that it aborts.
    fn on_pmi(&mut self, rank: u32, line: &str) {
        let answer = self.pmi.answer(rank, line);
        for (rank, line) in answer.lines {
            let process = usize::try_from(rank).ok().and_then(|at| self.plan.processes.get(at));
            if let Some(host) = process.and_then(|process| self.hosts.get(process.host)) {
                // The reading thread reports a host that has gone.
                let _ = wire::send(host, &ToHost::Pmi(rank, line));
            }
        }
        if let Some(code) = answer.abort {
            let what = format!("srun: error: task {rank} aborted the program with code {code}");
            self.session.screen.note(&what);
            self.end();
        }
    }

    /// Handles a host that has gone with its processes.
    fn on_host_lost(&mut self, at: usize) {
        self.usages[at].get_or_insert_default();
        for rank in 0..self.plan.processes.len() {
            if self.plan.processes[rank].host == at && self.codes[rank].is_none() {
                let rank = u32::try_from(rank).unwrap_or(u32::MAX);
                self.ended(rank, LOST, Some("the task of the job on its node has ended"));
            }
        }
    }

    fn on_signal(&mut self, number: i32, from: u32) {
        let is_end = [Signal::INT, Signal::TERM, Signal::QUIT, Signal::HUP]
            .iter()
            .any(|signal| signal.as_raw() == number);
        if number == Signal::TERM.as_raw() && is_shepherd(from) {
            // The job ends: its own shepherd signals each process.
            return;
        }
        if is_end && self.kill_at.is_some() {
            return self.send(Signal::KILL);
        }
        self.send_number(number);
        if is_end {
            self.kill_at = Some(Instant::now() + GRACE);
        }
    }

    fn on_time(&mut self) {
        let now = Instant::now();
        if self.kill_at.is_some_and(|at| at <= now) {
            self.send(Signal::KILL);
            self.kill_at = Some(now + GRACE);
        } else if self.end_at.take_if(|at| *at <= now).is_some() && self.kill_at.is_none() {
            self.end();
        }
    }

    /// Asks all processes to end, and kills them after the grace period.
    fn end(&mut self) {
        self.send(Signal::TERM);
        self.send(Signal::CONT);
        self.kill_at = Some(Instant::now() + GRACE);
    }

    fn send(&self, signal: Signal) {
        self.send_number(signal.as_raw());
    }

    fn send_number(&self, number: i32) {
        for host in &self.hosts {
            // The reading thread reports a host that has gone.
            let _ = wire::send(host, &ToHost::Signal(number));
        }
    }
}

/// Whether a process is a shepherd, which signals every process of its task itself.
pub fn is_shepherd(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.starts_with("gpool "))
}

/// Waits for a child, and returns its exit code, as in a shell.
pub fn code(child: &mut Child) -> u8 {
    let status = child.wait();
    let code = status
        .map_or(1, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    u8::try_from(code.clamp(0, 255)).unwrap_or(u8::MAX)
}

/// The exit of a program with this code.
pub fn exit(code: i32) -> Exit {
    Exit(u8::try_from(code.clamp(0, 255)).unwrap_or(u8::MAX))
}

fn nobody() -> Failure {
    Failure::new(errors::INTERNAL, "everything that listened ended")
}
