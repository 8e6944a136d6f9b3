//! Pausing and resuming all processes of a task. A task with GPUs of a real driver needs a keeper
//! process, which moves its GPU memory to host memory and back; others are only stopped.

use gpool_checkpoint::{Aim, Deadlines, Plan, ResidentProcess, Say};
use gpool_model::exit::Exit;
use gpool_model::id::{DeviceUuid, Generation};
use gpool_model::{SignalTo, SlotPart};
use rustix::process::Signal;

use super::keeper::{Keeper, News};
use super::yielding::Yielding;
use super::{Shepherd, Why};
use crate::message::FromShepherd;
use crate::nursery::leftovers::kill_child;
use crate::record::ClaimLine;

mod moving;

/// Keepers that may be killed, one after the other, before their task counts as broken.
const KEEPERS_MOST: u32 = 5;

/// Whether the processes of a task are paused, and the order about it.
#[derive(Default)]
pub(super) struct Halt {
    /// The generation of the last order.
    generation: Generation,
    /// Whether the last order was to pause.
    is_wanted: bool,
    /// Whether that order lets the processes run on, without their devices.
    runs_on: bool,
    /// Whether the node wants the task to leave its devices, apart from orders of the server.
    by_node: bool,
    is_paused: bool,
    /// Whether the task has to be off its devices, to go to others.
    leaves: bool,
    /// Whether the claim shows that it left its devices for that.
    is_detached: bool,
    /// Whether it was sent to its devices, and is not restored there yet.
    comes: bool,
    /// The request that the job frees its devices itself, if one is open.
    pub yielding: Option<Yielding>,
    /// The process that frees or restores the devices, if one is at work.
    pub keeper: Option<Keeper>,
    /// The processes with GPU memory that the keepers moved.
    held: Vec<ResidentProcess>,
    /// The devices on which they were, by slot.
    home: Vec<DeviceUuid>,
    /// Whether GPU memory of the task was ever restored: a process that is killed after that can
    /// hang the machine, unless its device was freed again.
    is_restored: bool,
    /// Whether the devices are free of the task.
    is_free: bool,
    /// Keepers that ended without a result since the last result.
    n_killed: u32,
    /// What the keeper waits for.
    waits: Option<String>,
    /// Why a pause is being undone.
    failed: Option<String>,
    /// Why the last order to resume on other devices was not carried out.
    not_moved: Option<String>,
    /// Why the GPU memory of the task is lost.
    pub lost: Option<String>,
    /// Whether the task's processes get KILL once their devices are free.
    kills_group: bool,
}

impl Halt {
    /// Whether the task's memory is off its devices, or still being restored.
    pub(super) fn is_off(&self) -> bool {
        self.is_paused
    }
}

impl Shepherd {
    /// Pauses all processes and reports it once it is noted in the claim, or reports that pausing
    /// failed. A repeated order gets the same report again.
    pub(super) fn pause(&mut self, generation: Generation, runs_on: bool) {
        if generation < self.halt.generation || self.ending.is_some() || self.exit.is_some() {
            return;
        }
        (self.halt.generation, self.halt.not_moved) = (generation, None);
        if runs_on && (self.halt.by_node || self.halt.leaves || self.halt.comes) {
            let why = "it is leaving its GPU for another job".to_owned();
            return self.link.say(&FromShepherd::NotPaused { generation, why, is_between: true });
        }
        (self.halt.is_wanted, self.halt.runs_on) = (true, runs_on);
        self.follow_order();
    }

    /// Resumes all processes, on these devices. A repeated order that could not be carried out gets
    /// the same report again: the agent has the task on its earlier devices since.
    pub(super) fn resume(
        &mut self,
        generation: Generation,
        devices: &[DeviceUuid],
        booked: &[DeviceUuid],
    ) {
        if generation < self.halt.generation {
            return;
        }
        if generation == self.halt.generation
            && let Some(why) = self.halt.not_moved.clone()
        {
            return self.say_not_moved(why);
        }
        (self.halt.generation, self.halt.not_moved) = (generation, None);
        (self.halt.is_wanted, self.halt.leaves) = (false, false);
        if self.halt.keeper.is_none() {
            // A move that a pause overtook: the order names the devices now.
            self.halt.comes = false;
        }
        let is_rebooked = !booked.is_empty() && self.launch.booked != booked;
        let is_elsewhere = self.devices() != devices || is_rebooked;
        if is_elsewhere || self.halt.is_detached {
            self.move_to(devices, booked);
        }
        self.follow_order();
    }

    /// Whether the task could leave its devices now.
    pub(super) fn can_vacate(&self) -> bool {
        self.needs_keeper() && self.ending.is_none() && self.exit.is_none()
    }

    /// Pauses the task for the node, or ends that pause.
    pub(super) fn leave_for_node(&mut self, leaves: bool) {
        if self.halt.by_node != leaves {
            self.halt.by_node = leaves;
            self.follow_order();
        }
    }

    /// Whether the task is to be paused, by an order or by the node.
    fn is_halt_wanted(&self) -> bool {
        self.halt.is_wanted || self.halt.by_node || self.halt.leaves
    }

    /// Carries out the last order, or reports that it is done. A keeper finishes first.
    fn follow_order(&mut self) {
        if self.halt.keeper.is_some() {
            return;
        }
        let yields = self.yields();
        match (self.is_halt_wanted(), self.halt.is_paused) {
            (true, false) if self.halt.is_wanted && yields.is_some() => {
                self.ask_release(self.halt.generation, yields.unwrap_or_default());
            }
            (true, false) if self.needs_keeper() => self.keep(Aim::Pause),
            (true, false) if self.halt.is_wanted && self.halt.runs_on => {
                self.not_paused("the node can't free the GPUs of a job that runs on".to_owned());
            }
            (false, true) if self.needs_keeper() => self.keep(Aim::Resume),
            (true, false) => {
                let tree = self.tree.as_ref().filter(|_| self.started.is_some());
                if tree.is_some_and(super::tree::Tree::freeze) {
                    self.paused();
                } else {
                    self.tree.iter().for_each(super::tree::Tree::thaw);
                    self.not_paused("its processes could not be stopped".to_owned());
                }
            }
            (true, true) => self.say_paused(),
            (false, was_paused) => {
                let generation = self.halt.generation;
                if was_paused {
                    // Noted first: the claim must not show a running task as paused.
                    self.note_halt(false);
                    self.thaw();
                }
                if let Some(yields) = yields
                    && (was_paused || self.halt.yielding.is_some())
                {
                    self.let_use(generation, yields);
                }
                self.link.say(&FromShepherd::Resumed { generation });
            }
        }
    }

    pub(super) fn paused(&mut self) {
        self.halt.is_paused = true;
        self.allowed.pause();
        self.set_timer();
        self.say_paused();
    }

    fn say_paused(&mut self) {
        // If the disk is full, a later agent repeats the order and gets the report then.
        self.note_halt(true);
        self.say_halt();
    }

    pub(super) fn not_paused(&mut self, why: String) {
        let generation = self.halt.generation;
        if std::mem::take(&mut self.halt.by_node) {
            self.link.say(&FromShepherd::NotVacated { why: why.clone() });
        }
        if std::mem::take(&mut self.halt.leaves) {
            let why = Some(why.clone());
            self.link.say(&FromShepherd::Detached { is_done: false, why });
        }
        let is_wanted = std::mem::take(&mut self.halt.is_wanted);
        self.link.say(&match is_wanted {
            true => FromShepherd::NotPaused { generation, why, is_between: false },
            // A later order was to resume.
            false => FromShepherd::Resumed { generation },
        });
    }

    /// Notes in the claim whether the task is paused. The server knows nothing of a pause by the
    /// node.
    fn note_halt(&mut self, is_paused: bool) {
        let is_by_node = self.halt.by_node || self.halt.leaves || self.halt.comes;
        let is_for_server = self.halt.is_wanted || !is_by_node;
        let halted = ClaimLine::Halted {
            generation: self.halt.generation,
            is_paused: is_paused && is_for_server,
            is_away: is_paused && !is_for_server,
            is_restored: self.halt.is_restored,
        };
        let _ = self.claim.halted(&halted);
    }

    /// Lets all processes go on, without a report. GPU memory that is in host memory stays there.
    pub(super) fn thaw(&mut self) {
        if std::mem::take(&mut self.halt.is_paused) {
            // Processes that run are not stopped by this.
            self.tree.iter().for_each(super::tree::Tree::thaw);
            self.allowed.resume();
            self.set_timer();
        }
    }

    /// Reports to a new agent whether the task is paused.
    pub(super) fn say_halt(&mut self) {
        if self.halt.is_paused && self.halt.by_node {
            self.link.say(&FromShepherd::Vacated);
        }
        if self.halt.is_paused && self.halt.leaves {
            self.say_detached();
        }
        if self.halt.is_paused && self.halt.is_wanted {
            self.link.say(&FromShepherd::Paused { generation: self.halt.generation });
        }
        if let Some(why) = self.halt.waits.clone() {
            self.link.say(&FromShepherd::Waits { why });
        }
    }

    /// Whether stopping the task's processes is not enough to free its devices.
    fn needs_keeper(&self) -> bool {
        self.launch.pausing.is_some()
            && self.yields().is_none()
            && !self.launch.order.allocation.slots.is_empty()
            && self.started.is_some()
    }

    fn has_ledger(&self) -> bool {
        self.layout.ledger(self.task()).is_dir()
    }

    /// Starts a keeper.
    fn keep(&mut self, aim: Aim) {
        let Some(pausing) = &self.launch.pausing else { return };
        let (order, task) = (&self.launch.order, self.task());
        let slots = &order.allocation.slots;
        let ledger = self.has_ledger().then(|| self.layout.ledger(task));
        let plan = Plan {
            aim,
            shepherd: std::process::id(),
            devices: self.devices().iter().map(ToString::to_string).collect(),
            is_shared: slots.iter().any(|slot| matches!(slot.part, SlotPart::Share { .. })),
            ignored: pausing.ignored.clone(),
            moves: self.moves(),
            record: pausing.record.clone(),
            processes: self.halt.held.clone(),
            ledger,
            is_risk_accepted: order.spec.life.exits.contains(&Exit::Pause),
            // Also after a resume that is undone.
            runs_on: self.halt.runs_on && (self.halt.is_wanted || aim == Aim::Resume),
            drivers: pausing.drivers.clone(),
            deadlines: pausing.deadlines.unwrap_or_else(Deadlines::default),
        };
        match Keeper::start(&plan) {
            Ok(keeper) => {
                if let Some(tree) = &mut self.tree {
                    tree.aside = Some(keeper.pid);
                }
                self.halt.keeper = Some(keeper);
            }
            Err(error) => self.keeper_failed(aim, &format!("could not be started: {error}")),
        }
    }

    /// Reads the messages of the keeper.
    pub(super) fn hear_keeper(&mut self) {
        let Some(keeper) = &mut self.halt.keeper else { return };
        let News { messages, is_over } = keeper.hear();
        for say in messages {
            self.on_keeper(say);
        }
        if is_over && let Some(keeper) = self.halt.keeper.take() {
            self.halt.waits = None;
            if let Some(tree) = &mut self.tree {
                tree.aside = None;
            }
            match keeper.last {
                Some(last) => {
                    self.halt.n_killed = 0;
                    self.keeper_done(last);
                }
                None => self.keeper_failed(keeper.aim, "was killed"),
            }
            self.after_keeper();
        }
    }

    fn on_keeper(&mut self, say: Say) {
        let mut answer = None;
        match say {
            Say::Found(held) => self.halt.held = held,
            Say::Freeze => {
                // Stopped processes could not handle the signals of their end.
                let may = self.ending.is_none() && self.exit.is_none();
                answer = Some(may && self.tree.as_ref().is_some_and(super::tree::Tree::freeze));
            }
            Say::Thaw => {
                self.tree.iter().for_each(super::tree::Tree::thaw);
                answer = Some(true);
            }
            Say::Waits(why) => {
                self.link.say(&FromShepherd::Waits { why: why.clone() });
                self.halt.waits = Some(why);
            }
            Say::Restores => {
                (self.halt.is_restored, self.halt.is_free) = (true, false);
                // Noted before the restore, so that the claim is never behind.
                self.note_halt(self.halt.is_paused);
                answer = Some(true);
            }
            last => {
                if let Some(keeper) = &mut self.halt.keeper {
                    keeper.last = Some(last);
                }
            }
        }
        if let (Some(yes), Some(keeper)) = (answer, &mut self.halt.keeper) {
            keeper.answer(yes);
        }
    }

    fn keeper_done(&mut self, last: Say) {
        match last {
            Say::Paused(held) => {
                self.halt.held = held;
                self.halt.home = self.devices();
                self.halt.is_free = true;
                self.paused();
            }
            Say::NotPaused { why, is_lost: false } => self.not_paused(why),
            Say::NotMoved { why, held } => self.not_moved(why, held),
            Say::NotPaused { why, is_lost: true } | Say::Lost(why) => self.lose(why),
            Say::Resumed => {
                self.halt.held.clear();
                self.halt.home.clear();
                self.note_halt(false);
                self.thaw();
                self.end_move();
                match self.halt.failed.take() {
                    Some(why) => self.not_paused(why),
                    None if self.is_halt_wanted() => {}
                    None => {
                        let generation = self.halt.generation;
                        self.link.say(&FromShepherd::Returned);
                        self.link.say(&FromShepherd::Resumed { generation });
                    }
                }
            }
            Say::Released { .. } => self.released(),
            // Not the last message of a keeper.
            Say::Found(_) | Say::Freeze | Say::Thaw | Say::Waits(_) | Say::Restores => {}
        }
    }

    /// Goes on after a keeper that ended without a result. The driver knows how far it came.
    fn keeper_failed(&mut self, aim: Aim, how: &str) {
        let why = format!("the process that calls the driver {how}");
        self.halt.n_killed += 1;
        match aim {
            Aim::Release => self.released(),
            _ if self.halt.n_killed >= KEEPERS_MOST => self.lose(why),
            Aim::Pause if self.halt.held.is_empty() && !self.has_ledger() => self.not_paused(why),
            // Nothing may stay locked, and the gate not closed.
            Aim::Pause => {
                self.halt.failed = Some(why);
                self.keep(Aim::Resume);
            }
            // The task is being killed, and so was its keeper.
            Aim::Resume if self.ending.is_some() || self.exit.is_some() => {}
            Aim::Resume => self.keep(Aim::Resume),
        }
    }

    /// Continues with the order, or with the end of the task, after a keeper.
    fn after_keeper(&mut self) {
        if self.halt.keeper.is_some() {
            return;
        }
        if self.ending.is_some() || self.exit.is_some() || self.halt.lost.is_some() {
            self.set_timer();
        } else if self.is_halt_wanted() != self.halt.is_paused {
            self.follow_order();
        }
    }

    /// Ends the task: the driver has lost its GPU memory.
    fn lose(&mut self, why: String) {
        self.halt.lost = Some(why);
        self.halt.is_free = true;
        self.thaw();
        if let Some(tree) = &self.tree {
            tree.thaw();
            tree.kill();
        }
        self.sweep_again();
    }

    fn released(&mut self) {
        self.halt.is_free = true;
        if std::mem::take(&mut self.halt.kills_group)
            && let Some(tree) = &self.tree
        {
            tree.signal_group(rustix::process::Signal::KILL.as_raw());
        }
    }

    /// Whether killing the task now could hang the machine.
    pub(super) fn is_fragile(&self) -> bool {
        self.halt.is_restored && !self.halt.is_free
    }

    /// Kills all processes once their devices are free; the caller repeats the call until all are
    /// gone.
    pub(super) fn kill(&mut self) {
        match &self.halt.keeper {
            // It has restored nothing yet; it may wait for room.
            Some(keeper) if keeper.aim == Aim::Resume && !self.is_fragile() => {
                kill_child(keeper.pid);
            }
            Some(keeper) if keeper.aim != Aim::Pause || self.is_fragile() => return,
            Some(_) => {}
            None if self.is_fragile() && self.needs_keeper() => {
                self.keep(Aim::Release);
                if self.halt.keeper.is_some() {
                    return;
                }
            }
            None => {}
        }
        if let Some(tree) = &self.tree {
            tree.kill();
        }
    }

    /// Sends a signal of a user. KILL waits until the devices are free.
    pub(super) fn signal(&mut self, signal: i32, to: SignalTo) {
        let kills = signal == rustix::process::Signal::KILL.as_raw();
        if kills && self.is_fragile() && self.halt.keeper.is_none() {
            self.halt.kills_group = true;
            self.keep(Aim::Release);
        } else if let Some(tree) = &self.tree {
            match to {
                SignalTo::Job => tree.signal_group(signal),
                SignalTo::Program => tree.signal_main(signal),
                SignalTo::Steps => {
                    let is_step = self.launch.order.spec.script.is_none();
                    if !tree.signal_steps(signal) && is_step {
                        tree.signal_group(signal);
                    }
                }
            }
        }
    }

    /// Asks every process to end. After a restore, only processes that handle the signal get it,
    /// since it would kill the others; if none does, the task is killed at once.
    pub(super) fn terminate(&mut self) {
        let (is_fragile, is_started) = (self.is_fragile(), self.started.is_some());
        let signal = self.launch.order.spec.stop_signal.map(|signal| signal.get().into());
        let signal = signal.and_then(Signal::from_named_raw).unwrap_or(Signal::TERM);
        let Some(tree) = &mut self.tree else { return };
        if !is_fragile {
            return tree.terminate(signal, is_started);
        }
        if !tree.terminate_those_that_can(signal) {
            let now = gpool_sys::clock::boot_ms();
            self.ending = self.ending.map(|(why, at): (Why, u64)| (why, at.min(now)));
        }
    }
}
