//! The ledgers of the tasks with fractions of devices, or with a gate: made before the program
//! starts, opened again by a new agent, and removed after the end. A thread of its own answers the
//! tasks' questions ([`crate::grow`]).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};

use gpool_ledger::{Ledger, Owner, Share};
use gpool_model::agent::TaskOrder;
use gpool_model::allocation::Slot;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_model::{Sharer, SlotPart, job};
use gpool_node::converge::Seats;
use gpool_node::presence::MemoryPresence;

use crate::enforcement::{Shim, bytes_of};
use crate::grow::{ANSWER, GrowMessage, Keeper, TaskLedger, owed_for};
use crate::input::InputSender;
use crate::shared_facts::SharedFacts;
use crate::wake::Waker;
use gpool_shepherd::layout::{Layout, claimed_task};
use gpool_shepherd::message::Cap;

/// The memory that a context takes at least on most devices. It is charged to the share when a
/// process creates its first context, because the driver does not tell it before.
///
/// Source: `nvidia-smi` of an idle context with drivers 550 to 580, which is 250 to 600 MiB.
const CONTEXT: Bytes = Bytes::from_mib(512);

/// Why a task is paused for its loans, for people.
pub(crate) const LOAN_PAUSE_REASON: &str = "another job needs the GPU memory that it borrowed";

/// The agent's handle of the thread.
pub(crate) struct Shares {
    layout: Layout,
    shim: Result<Shim, String>,
    messages: Sender<GrowMessage>,
    waker: Waker,
    facts: SharedFacts,
    /// The longest time until a called loan is back.
    deadline: Millis,
}

impl Shares {
    pub(crate) fn start(
        layout: &Layout,
        shim: Result<Shim, String>,
        facts: SharedFacts,
        sender: InputSender,
        deadline: Millis,
    ) -> io::Result<Self> {
        let (messages, taken) = channel();
        let waker = Waker::new()?;
        let keeper = Keeper::new(taken, waker.clone(), facts.clone(), sender, deadline);
        std::thread::Builder::new().name("shares".into()).spawn(move || keeper.run())?;
        Ok(Self { layout: layout.clone(), shim, messages, waker, facts, deadline })
    }

    /// Notes whether a task says that it is busy.
    pub(crate) fn says_busy(&self, task: TaskId, is_busy: bool) {
        self.facts.note_busy(task, is_busy, crate::facts::now());
    }

    /// Notes where a task is.
    pub(crate) fn at(&self, task: TaskId, presence: MemoryPresence) {
        match presence {
            MemoryPresence::Away => {
                self.stalled(task, Some(LOAN_PAUSE_REASON.to_owned()));
            }
            MemoryPresence::Here => {
                self.stalled(task, None);
                self.facts.lock().resumed.insert(task);
            }
            MemoryPresence::Paused => self.stalled(task, None),
            // The shepherd says what the restore waits for, and only once.
            MemoryPresence::Leaving
            | MemoryPresence::Returning
            | MemoryPresence::Resuming
            | MemoryPresence::Unsettled => {}
        }
        self.say(GrowMessage::At(task, presence));
    }

    /// Notes that the server has paused a task: it leaves no memory on a device for a return there.
    pub(crate) fn settled(&self, task: TaskId) {
        self.say(GrowMessage::Settled(task));
    }

    /// Notes that a task could not be paused for its loans.
    pub(crate) fn stays(&self, task: TaskId, why: String) {
        self.say(GrowMessage::Stays(task, why));
    }

    /// Notes that a task which should run waits for room, and why.
    pub(crate) fn waits(&self, task: TaskId, why: String) {
        self.stalled(task, Some(why));
        self.say(GrowMessage::Waits(task));
    }

    /// Notes why a task that should run is still paused; `None` if it is not.
    pub(crate) fn stalled(&self, task: TaskId, why: Option<String>) {
        let stalled = &mut self.facts.lock().stalled;
        match why {
            Some(why) => drop(stalled.insert(task, why)),
            None => drop(stalled.remove(&task)),
        }
    }

    /// Makes the ledger of a task that has fractions of devices, or that needs a gate; `None` for
    /// other tasks, and where the shim does not work.
    ///
    /// # Errors
    /// If a file can't be written. The task must not start then: nothing would limit it.
    pub(crate) fn give(
        &self,
        order: &TaskOrder,
        memory: &dyn Fn(&DeviceUuid) -> Option<Bytes>,
    ) -> Result<Option<Cap>, String> {
        let Ok(shim) = &self.shim else { return Ok(None) };
        let task = order.task();
        if self.layout.claim(task).exists() {
            // It runs already, with its ledger; its shepherd is about to be found.
            return Ok(None);
        }
        let mut slots: Vec<(DeviceUuid, Share)> =
            order.allocation.slots.iter().filter_map(|slot| share_of(slot, memory)).collect();
        let facts = self.facts.lock();
        for (device, share) in &mut slots {
            // Its memory may be lent: the thread grants it as far as it is free.
            if facts.devices.contains_key(device) {
                share.granted = 0;
            }
        }
        drop(facts);
        // A device that the ledger does not list has no limit.
        let needs_gate = order.has_gate && !order.allocation.slots.is_empty();
        if slots.is_empty() && !needs_gate {
            return Ok(None);
        }
        let folder = self.layout.ledger(task);
        let owner = owner_of(&order.spec.owner);
        let made = self.make(&folder, &slots, owner, order.sharer.as_ref()).map_err(|error| {
            format!("can't create the memory ledger {}: {error}", folder.display())
        })?;
        if slots.is_empty() {
            let all = order.allocation.slots.iter().map(|slot| bytes_of(&slot.device));
            made.ledger.add_unlimited(&all.collect::<Option<Vec<_>>>().unwrap_or_default());
        }
        self.say(GrowMessage::Keep(task, Box::new(made)));
        Ok(Some(Cap {
            shim: shim.folder.clone(),
            cuda: shim.cuda.clone(),
            nvml: shim.nvml.clone(),
            ledger: folder,
        }))
    }

    fn make(
        &self,
        folder: &Path,
        slots: &[(DeviceUuid, Share)],
        owner: Option<Owner>,
        sharer: Option<&Sharer>,
    ) -> io::Result<TaskLedger> {
        // An earlier agent may have ended before it started the task.
        remove(folder)?;
        DirBuilder::new().mode(0o711).create(folder)?;
        std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o711))?;
        let (devices, shares): (Vec<_>, Vec<_>) = slots.iter().cloned().unzip();
        let ledger = Ledger::create(folder, &shares, ANSWER, owner)?;
        ledger.wait_for_request(owed_for(self.deadline));
        let asks = ledger.listen(owner)?;
        Ok(TaskLedger::new(ledger, asks, devices, sharer))
    }

    /// Takes back the grants of a task that an earlier agent may have sent to other devices.
    pub(crate) fn withhold(&self, task: TaskId) {
        let Ok(ledger) = Ledger::open(&self.layout.ledger(task)) else { return };
        (0..ledger.shares().len()).for_each(|place| ledger.grant(place, 0));
    }

    /// Opens the ledger of a task that an earlier agent started, if it has one. If the task
    /// `is_off`, it gets no memory before its shepherd has said what becomes of it.
    pub(crate) fn adopt(
        &self,
        task: TaskId,
        seats: &Seats,
        started_at: Option<Timestamp>,
        is_off: bool,
    ) {
        let shares = seats.slots.iter().filter(|slot| matches!(slot.part, SlotPart::Share { .. }));
        let slots: Vec<&Slot> = shares.collect();
        let folder = self.layout.ledger(task);
        // Without it the task keeps its grant, and can't grow.
        let Ok(ledger) = Ledger::open(&folder) else { return };
        ledger.wait_for_request(owed_for(self.deadline));
        let owner = owner_in(&folder);
        let Ok(asks) = ledger.listen(owner) else { return };
        // The claim tells the devices: a keeper may have noted new ones before the restore.
        if ledger.shares().len() == slots.len() {
            let devices = slots.iter().map(|slot| slot.device.clone()).collect();
            let mut kept = TaskLedger::new(ledger, asks, devices, seats.sharer.as_ref());
            kept.since = started_at.unwrap_or(kept.since);
            if is_off {
                kept.presence = MemoryPresence::Unsettled;
            }
            self.say(GrowMessage::Keep(task, Box::new(kept)));
            // The earlier agent may have ended before it changed the size.
            self.resize(task, slots.iter().map(|slot| slot.part).collect());
        }
    }

    /// Begins to divide memory: the ledgers of all tasks of earlier agents are open.
    pub(crate) fn adopted(&self) {
        self.say(GrowMessage::Adopted);
    }

    /// Notes that the shepherd of a task has read the orders of earlier agents, and whether the
    /// task's memory is off its devices.
    pub(crate) fn connected(&self, task: TaskId, is_off: bool) {
        self.say(GrowMessage::Connected { task, is_off });
    }

    /// Changes the size of a task's shares, by slot.
    pub(crate) fn resize(&self, task: TaskId, parts: Vec<SlotPart>) {
        if !parts.is_empty() {
            self.say(GrowMessage::Resize(task, parts));
        }
    }

    /// Notes that a paused task comes to these devices, by slot.
    pub(crate) fn moved(&self, task: TaskId, devices: Vec<DeviceUuid>) {
        self.say(GrowMessage::Moved(task, devices));
    }

    /// Lets a task leave its devices for another task, after its loans are back.
    pub(crate) fn depart(&self, task: TaskId, beneficiary: Option<TaskId>) {
        self.say(GrowMessage::Depart(task, beneficiary));
    }

    /// Notes that a task stays on its devices, although it should move.
    pub(crate) fn stay(&self, task: TaskId) {
        self.say(GrowMessage::Stay(task));
    }

    /// Lets a task that is between devices come to these when they have room for it.
    pub(crate) fn come(&self, task: TaskId, devices: Vec<DeviceUuid>) {
        self.say(GrowMessage::Come(task, devices));
    }

    /// Removes the ledger of a task that has ended.
    pub(crate) fn end(&self, task: TaskId) {
        self.stalled(task, None);
        self.say(GrowMessage::End(task));
        let _ = remove(&self.layout.ledger(task));
    }

    /// Removes the ledgers of tasks that are not claimed any more.
    pub(crate) fn sweep(&self) {
        let entries = std::fs::read_dir(self.layout.ledgers()).into_iter().flatten().flatten();
        for entry in entries {
            let task = entry.file_name().to_str().and_then(claimed_task);
            if task.is_some_and(|task| !self.layout.claim(task).exists()) {
                let _ = remove(&entry.path());
            }
        }
        self.sweep_shims();
    }

    /// Removes the libraries of other versions, unless a task may still load them.
    fn sweep_shims(&self) {
        let is_used =
            |folder: &Path| std::fs::read_dir(folder).is_ok_and(|mut it| it.next().is_some());
        let Some(own) = self.shim.as_ref().ok().map(|shim| &shim.folder) else { return };
        if is_used(&self.layout.ledgers()) {
            return;
        }
        let entries = std::fs::read_dir(self.layout.shims()).into_iter().flatten().flatten();
        for folder in entries.map(|entry| entry.path()).filter(|folder| folder != own) {
            let _ = remove(&folder);
        }
    }

    fn say(&self, message: GrowMessage) {
        // The thread lives as long as this handle.
        let _ = self.messages.send(message);
        self.waker.wake();
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        self.say(GrowMessage::Stop);
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The ledger's entry for a fraction of a device.
fn share_of(
    slot: &Slot,
    memory: &dyn Fn(&DeviceUuid) -> Option<Bytes>,
) -> Option<(DeviceUuid, Share)> {
    let SlotPart::Share { memory: request, .. } = slot.part else { return None };
    let uuid = bytes_of(&slot.device)?;
    let limit = slot.part.limit_of(memory(&slot.device)?).max(request);
    let share = Share {
        uuid,
        request: request.get(),
        limit: limit.get(),
        granted: request.get(),
        // A small share must have room for more than a context.
        context: CONTEXT.min(request.div_floor(8)).get(),
    };
    Some((slot.device.clone(), share))
}

/// The job's user, if that is not the agent's.
fn owner_of(owner: &job::Owner) -> Option<Owner> {
    let is_other = rustix::process::geteuid().is_root() && owner.uid != 0;
    is_other.then_some(Owner { uid: owner.uid, gid: owner.gid })
}

/// The user of an existing ledger.
fn owner_in(folder: &Path) -> Option<Owner> {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::symlink_metadata(folder.join(gpool_ledger::layout::USAGE_FILE)).ok()?;
    let own = rustix::process::geteuid().as_raw();
    (file.uid() != own).then(|| Owner { uid: file.uid(), gid: file.gid() })
}
