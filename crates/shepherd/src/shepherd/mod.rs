//! The process that starts one task and stays with it. It claims the task so that no other process
//! starts it, and handles its output, time limit and end; it needs neither agent nor server for
//! that. One thread, no runtime; it is forked thousands of times.

mod attachment;
mod client_streams;
mod exec_session;
pub(crate) mod files;
mod forward;
mod halt;
mod in_container;
mod keeper;
mod launch;
mod link;
mod lookup;
mod memory;
pub(crate) mod metrics;
pub(crate) mod output;
mod ready;
mod standard_streams;
mod start;
mod steps;
pub(crate) mod terminal;
mod time;
mod tree;
mod yielding;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use gpool_model::agent::{LaunchContext, TaskEnd};
use gpool_model::id::TaskId;
use gpool_model::job::{EndCause, ExitStatus, OutputCut, Usage};
use gpool_model::launch::Lack;
use gpool_model::unit::Timestamp;
use gpool_sys::{child, clock, signal};
use rustix::event::{PollFd, PollFlags, poll};

use crate::layout::Layout;
use crate::message::{FromShepherd, Launch, ToShepherd};
use crate::record::{Claim, Claimant};
use client_streams::ClientStreams;
use launch::{FirstMessage, LaunchContent, not_started, unstarted};
use link::{Link, LinkEvent};
use metrics::Metrics;
use output::{Order, Stream};
use start::{MISSING, Program, READY};
use time::Allowed;
use tree::{Reaped, Tree};

/// Runs the shepherd of one task in a process that was just forked for it. `name` appears in
/// process lists; the task comes over the socket.
pub(crate) fn run(name: &str, boot_id: &str, nursery: u32, socket: OwnedFd) -> ! {
    match born(name, boot_id, nursery, socket) {
        Ok(()) => child::end(0),
        // Its agent sees that it ended without a message and that nothing was claimed.
        Err(_) => child::end(1),
    }
}

fn born(name: &str, boot_id: &str, nursery: u32, socket: OwnedFd) -> io::Result<()> {
    // Replaces the nursery's socket, and serves as the task's standard input.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    child::place(null.as_fd(), 0)?;
    if let Ok(name) = CString::new(format!("gpool {name}")) {
        let _ = rustix::thread::set_name(&name);
    }
    fail::fail_point!("shepherd-born");
    // A session of its own, so that it gets no signals from a terminal or for the nursery's group.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(rustix::process::Pid::from_raw(1))?;
    let watched = [rustix::process::Signal::CHILD, rustix::process::Signal::TERM];
    let signals = signal::watch(&watched.map(rustix::process::Signal::as_raw))?;

    let mut input = io::BufReader::with_capacity(64 << 10, File::from(socket));
    let FirstMessage { launch, content } = FirstMessage::read(&mut input)?;
    // Messages that the agent has sent since.
    let said = input.buffer().to_vec();
    let socket = input.into_inner().into();
    let layout = Layout::new(&launch.state_dir);
    let task = launch.order.task();
    let mut link = Link::new(task, &layout, socket, said)?;
    fail::fail_point!("shepherd-claim-before");
    let claimed = claim(&layout, &launch, boot_id, nursery);
    // Replaces the lock that a later agent waits for.
    child::place(null.as_fd(), 1)?;
    drop(null);
    match claimed {
        Ok(Some(claim)) => {
            let mut shepherd = Shepherd {
                outputs: [None, None],
                order: Order::default(),
                client_streams: ClientStreams::default(),
                metrics: Metrics::of(&launch.order.spec),
                cut: None,
                program: None,
                owner: None,
                buffer: vec![0; 64 << 10],
                context: LaunchContext::default(),
                started: None,
                setup: None,
                tree: None,
                exit: None,
                failed: None,
                missing: None,
                ending: None,
                is_saving: false,
                allowed: Allowed::new(&launch.order, launch.fence_at),
                halt: halt::Halt::default(),
                timer: None,
                layout,
                launch,
                claim,
                link,
                signals,
            };
            shepherd.live(content);
        }
        Ok(None) => link.say(&FromShepherd::AlreadyClaimed),
        Err(error) => {
            let why = format!("can't claim the task in {}: {error}", layout.tasks().display());
            link.say(&FromShepherd::Ended { end: not_started(why) });
        }
    }
    Ok(())
}

fn claim(
    layout: &Layout,
    launch: &Launch,
    boot_id: &str,
    nursery: u32,
) -> io::Result<Option<Claim>> {
    let order = &launch.order;
    let mut claimant =
        Claimant::this_process(order.task(), order.generation, order.spec.owner.uid, boot_id);
    claimant.site = launch.site.clone();
    claimant.nursery = Some(nursery);
    claimant.slots.clone_from(&order.allocation.slots);
    claimant.booked.clone_from(&launch.booked);
    claimant.sharer.clone_from(&order.sharer);
    claimant.idle_after = order.spec.shown_idle_after();
    claimant.can_move = order.spec.yields().is_none();
    claimant.container_gid = launch.has_named_container().then_some(order.spec.owner.gid);
    Claim::take(layout, claimant)
}

fn now() -> Timestamp {
    Timestamp::new(clock::unix_ms())
}

/// Why a task is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    StopOrder,
    /// It kept memory that was called back.
    CalledBack,
    TimeLimit,
    Deadline,
    OutputCut,
    /// The lease of its agent is over.
    Fence,
}

struct Shepherd {
    launch: Launch,
    layout: Layout,
    claim: Claim,
    link: Link,
    signals: OwnedFd,
    context: LaunchContext,
    outputs: [Option<Stream>; 2],
    /// How the two outputs interleave.
    order: Order,
    client_streams: ClientStreams,
    /// The metrics that its program reports.
    metrics: Metrics,
    /// Why its output was last dropped.
    cut: Option<OutputCut>,
    /// The program, once it was started.
    program: Option<Program>,
    /// The user and group of its processes; `None` if they are the agent's.
    owner: Option<(u32, u32)>,
    buffer: Vec<u8>,
    /// The program's process ID and start time.
    started: Option<(u32, Timestamp)>,
    /// The child's messages between fork and exec, as far as they are read.
    setup: Option<(OwnedFd, u32, Vec<u8>)>,
    tree: Option<Tree>,
    exit: Option<ExitStatus>,
    /// Why the program could not be started.
    failed: Option<String>,
    /// The missing path, if that is the reason.
    missing: Option<String>,
    /// Why the task is being ended, and when (on the boot clock) it is killed.
    ending: Option<(Why, u64)>,
    /// Whether only the job's own stop signal was sent so far, so that it can save its work.
    is_saving: bool,
    /// How long the task may run.
    allowed: Allowed,
    /// Whether its processes are paused, and the order about it.
    halt: halt::Halt,
    timer: Option<OwnedFd>,
}

impl Shepherd {
    fn task(&self) -> TaskId {
        self.launch.order.task()
    }

    /// Whether the task only holds its place for processes that a launcher starts in it.
    fn holds(&self) -> bool {
        let spec = &self.launch.order.spec;
        let has_program = !spec.command.is_empty() || spec.script.is_some();
        spec.gang.has_launcher() && (self.task().rank > 0 || !has_program)
    }

    /// Whether the remaining processes are killed: the task's own program has ended. In a job with
    /// a launcher, processes that `srun` started keep their grace period even if the script dies of
    /// the stop signal, as in Slurm.
    fn sweeps(&self) -> bool {
        let has_grace = || self.ending.is_some_and(|(_, kill_at)| clock::boot_ms() < kill_at);
        self.exit.is_some() && !(self.launch.order.spec.gang.has_launcher() && has_grace())
    }

    /// Ends a task that only holds its place, once it is to end and runs no other process.
    fn end_if_alone(&self) {
        if self.ending.is_some()
            && self.holds()
            && let Some(tree) = self.tree.as_ref().filter(|tree| tree.is_alone())
        {
            tree.kill();
        }
    }

    /// Runs the task from the claim to the end.
    fn live(&mut self, content: LaunchContent) {
        fail::fail_point!("shepherd-claimed");
        let end = match self.is_fenced_off() {
            true => unstarted(EndCause::NodeLost),
            false => match self.start(content) {
                Ok(()) => self.watch(),
                Err(why) => not_started(why),
            },
        };
        let mut end = end;
        self.end_container(&mut end);
        self.remove_secrets();
        fail::fail_point!("shepherd-ended");
        // Fails if the disk is full; the message to the agent matters more.
        let noted = self.claim.ended(&end);
        fail::fail_point!("shepherd-end-noted");
        self.link.say(&FromShepherd::Ended { end: end.clone() });
        fail::fail_point!("shepherd-end-told");
        self.client_streams.say_goodbye(&mut self.buffer);
        if let Some(tree) = &self.tree {
            tree.remove_group();
        }
        self.wait_for_acknowledgement(&end, noted.is_ok());
        fail::fail_point!("shepherd-acknowledged");
    }

    fn wait_for_acknowledgement(&mut self, end: &TaskEnd, noted: bool) {
        loop {
            if !self.link.is_up() && self.link.try_again(false) == LinkEvent::UpAgain {
                self.link.say(&FromShepherd::Ended { end: end.clone() });
            }
            if !self.link.is_up() {
                if noted || self.claim.ended(end).is_ok() {
                    // No agent listens, so the claim is the only record of the end.
                    let _ = self.claim.sync();
                }
                return;
            }
            let Some(fd) = self.link.fd() else { return };
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
            if let LinkEvent::Messages(messages) = self.link.hear(false)
                && messages.contains(&ToShepherd::Acknowledge)
            {
                return;
            }
        }
    }

    /// Stays with the task until none of its processes is left.
    fn watch(&mut self) -> TaskEnd {
        // Messages that came together with the launch make no descriptor ready.
        self.listen();
        self.set_timer();
        while !self.step() {}
        for which in 0..self.outputs.len() {
            self.finish_output(which);
        }
        self.say_last_metrics();
        self.end()
    }

    fn end(&mut self) -> TaskEnd {
        let told = matches!(self.ending, Some((Why::StopOrder, _)));
        let oom = || self.tree.as_ref().is_some_and(Tree::met_memory_limit);
        let cause = match (&self.failed, self.ending, self.exit) {
            _ if self.started.is_none() && told => None,
            (_, Some((Why::Fence, _)), _) => Some(EndCause::NodeLost),
            _ if self.missing.is_some() => {
                self.missing.take().map(|path| EndCause::NodeLacks(Lack::Path(path)))
            }
            (Some(why), ..) => Some(EndCause::LaunchFailed { why: why.clone() }),
            _ if self.halt.lost.is_some() => {
                self.halt.lost.take().map(|why| EndCause::GpuMemoryLost { why })
            }
            (_, Some((Why::CalledBack, _)), _) => Some(EndCause::LoanCalledBack),
            (_, Some((Why::TimeLimit, _)), _) => Some(EndCause::TimeLimit),
            (_, Some((Why::Deadline, _)), _) => Some(EndCause::Deadline),
            (_, Some((Why::OutputCut, _)), _) => self.cut.map(|cut| EndCause::OutputCut { cut }),
            (_, _, exit) if exit != Some(ExitStatus::Code(0)) && oom() => Some(EndCause::Oom),
            _ => None,
        };
        TaskEnd {
            started_at: self.started.map(|(_, at)| at),
            ended_at: now(),
            exit: self.exit.filter(|_| self.started.is_some()),
            cause,
            stopped: told,
            usage: Usage { objective: self.metrics.objective(), ..Tree::usage(self.tree.as_ref()) },
            steps: self.ended_steps().into(),
        }
    }

    /// Waits for an event and handles it; returns `true` when no process is left.
    fn step(&mut self) -> bool {
        if self.link.retry_in() == Some(0) {
            self.try_link();
        }
        let ready = self.wait();
        if ready.setup {
            self.read_setup();
        }
        for which in (0..self.outputs.len()).filter(|which| ready.outputs[*which]) {
            self.take_output(which);
        }
        if ready.client_streams {
            self.client_streams.step(&mut self.buffer);
        }
        if ready.link {
            self.listen();
        }
        if ready.keeper {
            self.hear_keeper();
        }
        if ready.timer {
            self.on_time();
        }
        ready.signals && self.on_signals()
    }

    /// Reads the child's messages between fork and exec.
    fn read_setup(&mut self) {
        let Some((fd, pid, said)) = &mut self.setup else { return };
        let mut buffer = [0_u8; 4096];
        loop {
            match rustix::io::read(&*fd, &mut buffer[..]) {
                Ok(0) => break,
                Ok(length) => said.extend_from_slice(&buffer[..length]),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => break,
            }
        }
        let pid = *pid;
        let ready = said.first() == Some(&READY);
        let why = String::from_utf8_lossy(&said[usize::from(ready)..]).into_owned();
        self.setup = None;
        if let Some(path) = why.strip_prefix(char::from(MISSING)).filter(|_| !ready) {
            self.missing = Some(path.to_owned());
            return;
        }
        if !ready || !why.is_empty() {
            let ended = "it ended before its program was started".to_owned();
            self.failed = Some(if why.is_empty() { ended } else { why });
            return;
        }
        fail::fail_point!("shepherd-started");
        let at = now();
        self.started = Some((pid, at));
        self.tree.iter_mut().for_each(Tree::note_started);
        // A full disk must not end a running job.
        let _ = self.claim.started(pid, at);
        fail::fail_point!("shepherd-start-noted");
        self.link.say(&FromShepherd::Started { pid, at });
        fail::fail_point!("shepherd-start-told");
        self.start_time();
    }

    fn listen(&mut self) {
        match self.link.hear(self.halt.is_off()) {
            LinkEvent::Messages(messages) => {
                for message in messages {
                    match message {
                        ToShepherd::Stop { grace, signal } => {
                            self.begin_end(Why::StopOrder, grace, signal);
                        }
                        ToShepherd::Lease { until } => self.renew(until),
                        ToShepherd::Change { generation, terms } => self.change(generation, terms),
                        ToShepherd::Pause { generation, runs_on } => {
                            self.pause(generation, runs_on);
                        }
                        ToShepherd::Resume { generation, devices, booked } => {
                            self.resume(generation, &devices, &booked);
                        }
                        ToShepherd::Vacated { generation, user } => {
                            self.vacated(generation, user);
                        }
                        ToShepherd::Detach => self.leave_devices(),
                        ToShepherd::Attach { devices } => self.take_devices(&devices),
                        ToShepherd::Memory { devices } => self.show_memory(&devices),
                        ToShepherd::Vacate => self.vacate(),
                        ToShepherd::Return => self.come_back(),
                        ToShepherd::Reclaim { grace } => {
                            self.begin_end(Why::CalledBack, grace, None);
                        }
                        ToShepherd::Signal { signal, to } => self.signal(signal, to),
                        // Nothing has ended yet.
                        ToShepherd::Acknowledge => {}
                        ToShepherd::Open { line, opening } => self.open(line, opening),
                    }
                }
            }
            LinkEvent::UpAgain => self.say_all(),
            LinkEvent::Down => self.try_link(),
        }
    }

    fn try_link(&mut self) {
        if self.link.try_again(self.halt.is_off()) == LinkEvent::UpAgain {
            self.say_all();
        }
    }

    fn say_all(&mut self) {
        if let Some((pid, at)) = self.started {
            self.link.say(&FromShepherd::Started { pid, at });
        }
        if let Some(cut) = self.cut {
            let is_stopped = self.launch.stop_on_cut;
            self.link.say(&FromShepherd::OutputCut { cut, is_stopped });
        }
        self.say_halt();
        self.say_metrics();
    }

    fn on_signals(&mut self) -> bool {
        let taken = signal::take(&self.signals).unwrap_or_default();
        if taken.contains(&rustix::process::Signal::TERM.as_raw()) {
            self.begin_end(Why::StopOrder, self.launch.order.spec.grace, None);
        }
        let Some(tree) = &mut self.tree else { return true };
        let mut is_cut_off = false;
        loop {
            match tree.reap() {
                Reaped::Main(exit) => {
                    self.exit = Some(exit);
                    // Without its client, a container has no output and no exit code.
                    is_cut_off =
                        matches!(exit, ExitStatus::Signal(_)) && self.launch.has_named_container();
                }
                Reaped::Other(pid, exit) => {
                    self.client_streams.ended(pid, exit);
                    self.client_streams.step(&mut self.buffer);
                }
                Reaped::Nobody => break,
                Reaped::NoChildren => {
                    // The child's last message may have come after the pipe was read.
                    self.read_setup();
                    return true;
                }
            }
        }
        if is_cut_off || self.sweeps() {
            self.kill();
            self.sweep_again();
        }
        self.end_if_alone();
        false
    }
}
