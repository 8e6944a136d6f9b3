//! All processes of a task: signalled and ended together, even if they tried to escape. With a
//! control group the kernel does it; without one, orphans become children of this process.

use gpool_sys::cgroup::Group;
use gpool_sys::{clock, pidfd, proc, usage};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use gpool_model::container::EngineKind;
use gpool_model::job::{ExitStatus, Usage};
use gpool_model::{Bytes, Millis};

use crate::nursery::leftovers::kill_child;

/// How long pausing all processes may take; the kernel may delay one for a while.
const FREEZE: std::time::Duration = std::time::Duration::from_secs(10);
const FREEZE_MS: u64 = 10_000;
/// Pause between two checks.
const FREEZE_STEP: std::time::Duration = std::time::Duration::from_millis(1);

/// The variable that `srun` sets for its processes, and nothing else sets.
const STEP_VARIABLE: &[u8] = b"SLURM_STEP_ID=";

/// The processes below this one.
pub(super) struct Tree {
    group: Option<Group>,
    /// The task's own process, until it is reaped; its process group has the same number.
    main: Option<Pid>,
    /// A child that is no process of the task.
    pub aside: Option<u32>,
    /// A signal to send once the program is started.
    early_signal: Option<i32>,
    /// The engine that has put the program into control groups of its own.
    engine: Option<EngineKind>,
}

/// The result of reaping a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaped {
    /// The task's own process has ended.
    Main(ExitStatus),
    /// Another process has ended: a program beside it, or a descendant.
    Other(u32, ExitStatus),
    /// No child has ended, but there are some.
    Nobody,
    NoChildren,
}

impl Tree {
    pub(super) fn new(group: Option<Group>, main: u32, engine: Option<EngineKind>) -> Self {
        Self {
            engine,
            group,
            main: i32::try_from(main).ok().and_then(Pid::from_raw),
            aside: None,
            early_signal: None,
        }
    }

    pub(super) fn reap(&mut self) -> Reaped {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if self.main == Some(pid) => {
                    self.main = None;
                    return Reaped::Main(exit_status(status));
                }
                Ok(Some((pid, status))) => {
                    let pid = u32::try_from(pid.as_raw_nonzero().get()).unwrap_or(0);
                    return Reaped::Other(pid, exit_status(status));
                }
                Ok(None) => return Reaped::Nobody,
                Err(rustix::io::Errno::INTR) => {}
                // No children. Descendants become children before they end, so none of them are
                // left either.
                Err(_) => return Reaped::NoChildren,
            }
        }
    }

    /// What all its processes have used. The kernel counts it in the control group; without one,
    /// only reaped processes count.
    pub(super) fn usage(tree: Option<&Self>) -> Usage {
        let reaped = usage::of_children();
        let group = tree.and_then(Self::group).map(Group::usage).unwrap_or_default();
        Usage {
            cpu_user: Millis::new(group.user_ms.unwrap_or(reaped.user_ms)),
            cpu_system: Millis::new(group.system_ms.unwrap_or(reaped.system_ms)),
            memory_peak: Bytes::new(reaped.memory_peak),
            memory_peak_together: group.memory_peak.map(Bytes::new),
            read: group.read_bytes.map(Bytes::new),
            written: group.written_bytes.map(Bytes::new),
            gpu: None,
            objective: None,
        }
    }

    /// Whether the task's own process is the only one that runs.
    pub(super) fn is_alone(&self) -> bool {
        let main = self.main.and_then(|main| u32::try_from(main.as_raw_nonzero().get()).ok());
        let is_gone = |pid: u32| proc::stat(pid).is_none_or(|stat| stat.state == b'Z');
        let mut all = self.all().into_iter();
        main.is_some() && all.all(|pid| Some(pid) == main || is_gone(pid))
    }

    /// The control group, for a further process to enter.
    pub(super) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Sends a signal to the task's process group, as a terminal would.
    pub(super) fn signal_group(&self, number: i32) {
        if let (Some(main), Some(signal)) = (self.main, Signal::from_named_raw(number)) {
            // The main process is not reaped, so the number is still its group's.
            let _ = rustix::process::kill_process_group(main, signal);
        }
    }

    /// Sends a signal to the task's process group; if its program is not started yet, also once it
    /// is: before that its process may have no group, or ignore the signal as its shepherd does.
    pub(super) fn signal_program(&mut self, number: i32, is_started: bool) {
        self.signal_group(number);
        self.early_signal = (!is_started).then_some(number);
    }

    /// Notes that the program is started.
    pub(super) fn note_started(&mut self) {
        if let Some(number) = self.early_signal.take() {
            self.signal_group(number);
        }
    }

    /// Sends a signal to the task's own process only.
    pub(super) fn signal_main(&self, number: i32) {
        if let (Some(main), Some(signal)) = (self.main, Signal::from_named_raw(number)) {
            let _ = rustix::process::kill_process(main, signal);
        }
    }

    /// Sends a signal to the task's process group without its own process, or to that process if it
    /// is alone.
    pub(super) fn signal_others(&self, number: i32) {
        let Some(group) = self.main.and_then(|it| u32::try_from(it.as_raw_nonzero().get()).ok())
        else {
            return;
        };
        let is_other =
            |pid: &u32| *pid != group && proc::stat(*pid).is_some_and(|stat| stat.group == group);
        let others: Vec<u32> = self.all().into_iter().filter(is_other).collect();
        if others.is_empty() {
            return self.signal_main(number);
        }
        for pid in others {
            let Ok(Some(process)) = pidfd::open(pid) else { continue };
            // Checked after opening: the process ID may have been reused before.
            if is_other(&pid) {
                let _ = pidfd::signal(process, number);
            }
        }
    }

    /// Sends a signal to the processes that `srun` started; `false` if there are none.
    pub(super) fn signal_steps(&self, number: i32) -> bool {
        let is_of_step = |pid: &u32| {
            let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|entry| entry.starts_with(STEP_VARIABLE))
        };
        let Some(signal) = Signal::from_named_raw(number) else { return false };
        let steps: Vec<u32> = self.all().into_iter().filter(is_of_step).collect();
        steps.iter().for_each(|pid| self.signal_one(*pid, signal));
        !steps.is_empty()
    }

    /// Asks every process to end, stopped ones too. If the program is not started yet, it also gets
    /// a signal other than TERM once it is: before that its process ignores the same signals as its
    /// shepherd.
    pub(super) fn terminate(&mut self, signal: Signal, is_started: bool) {
        let is_early = !is_started && signal != Signal::TERM;
        self.early_signal = is_early.then_some(signal.as_raw());
        self.signal_all(signal);
        self.signal_all(Signal::CONT);
    }

    /// Asks those processes to end that handle the signal; `false` if there are none.
    pub(super) fn terminate_those_that_can(&self, signal: Signal) -> bool {
        let asked = self.signal_those_that_handle(signal);
        asked.iter().for_each(|pid| self.signal_one(*pid, Signal::CONT));
        !asked.is_empty()
    }

    /// Sends a signal to those processes that handle it, and returns them.
    pub(super) fn signal_those_that_handle(&self, signal: Signal) -> Vec<u32> {
        let handles = |pid: &u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            proc::catches(&status, signal.as_raw())
        };
        let all: Vec<u32> = self.all().into_iter().filter(handles).collect();
        all.iter().for_each(|pid| self.signal_one(*pid, signal));
        all
    }

    /// Kills all present processes. Without a control group new ones may have been forked
    /// meanwhile; the caller repeats the call until all are gone.
    pub(super) fn kill(&self) {
        if !self.group.as_ref().is_some_and(Group::kill) {
            // The kernel's list of children first, which takes microseconds: a process that forks
            // and exits faster than a walk over all processes is in it as an orphan.
            let children = proc::children_now(std::process::id()).into_iter();
            children.filter(|pid| Some(*pid) != self.aside).for_each(kill_child);
            // Stopped first, so that none forks while others are killed one by one.
            self.signal_all(Signal::STOP);
        }
        self.signal_all(Signal::KILL);
    }

    /// Stops every process, new ones included; returns `false` if that took too long.
    pub(super) fn freeze(&self) -> bool {
        if self.engine == Some(EngineKind::Docker) {
            // They are below the daemon.
            return false;
        }
        if let Some(group) = self.freezer() {
            return group.freeze(FREEZE);
        }
        let give_up = clock::boot_ms().saturating_add(FREEZE_MS);
        let mut before = None;
        while clock::boot_ms() < give_up {
            self.signal_all(Signal::STOP);
            // Stopped processes fork no others: if two checks find the same processes, all of them
            // stopped, there are no more.
            let now = self.stopped();
            if now.is_some() && now == before {
                return true;
            }
            before = now;
            std::thread::sleep(FREEZE_STEP);
        }
        false
    }

    /// The control group that stops all of them at once.
    fn freezer(&self) -> Option<&Group> {
        self.group.as_ref().filter(|group| group.can_freeze() && self.engine.is_none())
    }

    /// Lets every stopped process go on.
    pub(super) fn thaw(&self) {
        match self.freezer() {
            Some(group) => group.thaw(),
            None => self.signal_all(Signal::CONT),
        }
    }

    /// All processes, if each of them is stopped or has ended.
    fn stopped(&self) -> Option<Vec<u32>> {
        let mut all = self.all();
        all.sort_unstable();
        let is_still = |pid: &u32| {
            let state = proc::stat(*pid).map(|stat| stat.state);
            state.is_none_or(|state| matches!(state, b'T' | b't' | b'Z' | b'X'))
        };
        all.iter().all(is_still).then_some(all)
    }

    fn all(&self) -> Vec<u32> {
        let mut all = proc::descendants(std::process::id());
        if self.aside.is_some() {
            all.retain(|pid| self.has(*pid));
        }
        all
    }

    /// Whether a process is one of the task's.
    fn has(&self, pid: u32) -> bool {
        let me = std::process::id();
        proc::nearest_ancestor(pid, &|pid| pid == me || Some(pid) == self.aside) == Some(me)
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.all() {
            self.signal_one(pid, signal);
        }
    }

    fn signal_one(&self, pid: u32, signal: Signal) {
        let Ok(Some(process)) = pidfd::open(pid) else { return };
        // Checked after opening: the process ID may have been reused before.
        if self.has(pid) {
            let _ = pidfd::signal(process, signal.as_raw());
        }
    }

    /// Whether the kernel killed one of the processes for lack of memory.
    pub(super) fn met_memory_limit(&self) -> bool {
        self.group.as_ref().is_some_and(|group| group.oom_kills() > 0)
    }

    pub(super) fn remove_group(&self) {
        if let Some(group) = &self.group {
            group.remove();
        }
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ExitStatus::Code(code),
        (None, Some(signal)) => ExitStatus::Signal(signal),
        // `wait` does not report stops, so there is no third case.
        (None, None) => ExitStatus::Code(-1),
    }
}
