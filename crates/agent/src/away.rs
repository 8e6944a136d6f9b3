//! Tasks with ledgers that leave their devices: for their loans, or because another task needs the
//! room. They come back, or to other devices, when there is room.

use gpool_model::agent::LoanIs;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::Bytes;
use gpool_node::presence::{MemoryPresence, can_return};

use crate::grow::{Departure, Keeper, TaskLedger};
use crate::input::LoanAction;
use crate::input::ThreadInput;
use crate::lend::Seat;
use crate::shares::LOAN_PAUSE_REASON;

/// Free memory that a device must have beside that of a task that moves there: contexts differ.
const MARGIN: Bytes = Bytes::from_mib(512);

impl Keeper {
    pub(crate) fn note(&mut self, task: TaskId, presence: MemoryPresence) {
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        let before = kept.presence;
        kept.presence = before.then(presence);
        if presence.is_away() {
            kept.departure = Departure::No;
        } else if presence == MemoryPresence::Here {
            (kept.holds, kept.comes) = (None, None);
        }
        let device = kept.devices.first().cloned();
        match (before, presence) {
            (MemoryPresence::Leaving, MemoryPresence::Away) => {
                self.report(task, device, LoanIs::Paused)
            }
            (MemoryPresence::Returning, MemoryPresence::Here) => {
                self.report(task, device, LoanIs::Returned)
            }
            _ => {}
        }
        self.settle_all();
    }

    /// Notes that a shepherd has no orders of earlier agents left. If the memory of its task is off
    /// its devices, it says next what becomes of it. The task gets no grant before that: it would
    /// be restored without room.
    pub(crate) fn connected(&mut self, task: TaskId, is_off: bool) {
        match self.tasks.get(&task).map(|kept| kept.presence) {
            Some(MemoryPresence::Unsettled) if !is_off => self.note(task, MemoryPresence::Here),
            Some(MemoryPresence::Here) if is_off => self.note(task, MemoryPresence::Unsettled),
            _ => {}
        }
    }

    /// Notes that the server has paused a task.
    pub(crate) fn settled(&mut self, task: TaskId) {
        if let Some(kept) = self.tasks.get_mut(&task) {
            kept.holds = None;
        }
        self.settle_all();
    }

    /// Notes that a task waits to be restored. A report of its pause may have come after the order
    /// to resume it, and a new agent does not know of that order.
    pub(crate) fn waits(&mut self, task: TaskId) {
        let presence = self.tasks.get(&task).map(|kept| kept.presence);
        if matches!(
            presence,
            Some(MemoryPresence::Here | MemoryPresence::Paused | MemoryPresence::Unsettled)
        ) {
            self.note(task, MemoryPresence::Resuming);
        }
    }

    /// Notes that a task could not be paused.
    pub(crate) fn stays(&mut self, task: TaskId, why: String) {
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        (kept.presence, kept.can_pause) = (kept.presence.stayed(), false);
        let device = kept.devices.first().cloned();
        self.report(task, device, LoanIs::NotPaused { why });
        self.settle_all();
    }

    /// Calls the loans of a task back that has to leave its devices. It leaves at once if it is not
    /// on them.
    pub(crate) fn depart(&mut self, task: TaskId, beneficiary: Option<TaskId>) {
        match self.tasks.get_mut(&task).filter(|kept| kept.presence == MemoryPresence::Here) {
            Some(kept) => {
                kept.departure = beneficiary.map_or(Departure::ForUnknown, Departure::For);
                self.settle_all();
            }
            None => self.sender.send(ThreadInput::LoanAction(LoanAction::Leave(task))),
        }
    }

    pub(crate) fn let_leave(&mut self, task: TaskId) {
        if let Some(kept) = self.tasks.get_mut(&task) {
            kept.presence = MemoryPresence::Leaving;
        }
        self.sender.send(ThreadInput::LoanAction(LoanAction::Leave(task)));
    }

    /// Sends a borrower to another device with room.
    pub(crate) fn send_elsewhere(
        &mut self,
        device: &DeviceUuid,
        seat: &Seat,
        beneficiary: Option<TaskId>,
    ) {
        let (task, from, to) = (seat.task, device.clone(), self.roomy(device, seat));
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        kept.presence = MemoryPresence::Leaving;
        kept.holds = Some((from.clone(), seat.tenant.used));
        let beneficiary = beneficiary.unwrap_or(task);
        self.sender.send(ThreadInput::LoanAction(LoanAction::Move { task, from, to, beneficiary }));
    }

    /// Notes that a task could not be moved.
    pub(crate) fn stay(&mut self, task: TaskId) {
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        kept.presence = kept.presence.stayed();
        (kept.can_move, kept.departure, kept.holds) = (false, Departure::No, None);
        self.settle_all();
    }

    /// Lets a task that is between devices come to these. Within its request it comes at once, and
    /// loans there are called back for it; otherwise once there is room.
    pub(crate) fn come(&mut self, task: TaskId, devices: Vec<DeviceUuid>) {
        if self.may_come(task) {
            self.note(task, MemoryPresence::Resuming);
            return self.sender.send(ThreadInput::LoanAction(LoanAction::Attach(task, devices)));
        }
        let Some(kept) = self.tasks.get_mut(&task) else { return };
        (kept.presence, kept.comes, kept.holds) = (MemoryPresence::Away, Some(devices), None);
        let device = kept.devices.first().cloned();
        self.facts.lock().stalled.insert(task, LOAN_PAUSE_REASON.to_owned());
        self.report(task, device, LoanIs::Paused);
        self.sender.send(ThreadInput::LoanAction(LoanAction::Parked(task)));
        self.settle_all();
    }

    /// Brings tasks back that were paused for their loans, once their devices have room without
    /// memory that other tasks requested: otherwise they might have to leave at once.
    pub(crate) fn bring_back(&mut self) {
        let away = |(_, kept): &(&TaskId, &TaskLedger)| kept.presence == MemoryPresence::Away;
        let away: Vec<TaskId> = self.tasks.iter().filter(away).map(|(task, _)| *task).collect();
        for task in away {
            if self.may_come(task) {
                let comes = self.tasks.get_mut(&task).and_then(|kept| kept.comes.take());
                self.note(task, MemoryPresence::Returning);
                self.sender.send(ThreadInput::LoanAction(match comes {
                    Some(devices) => LoanAction::Attach(task, devices),
                    None => LoanAction::Return(task),
                }));
            }
        }
    }

    /// Whether the devices of a task have room for it; also if it uses none of its own.
    fn may_come(&self, task: TaskId) -> bool {
        let Some(kept) = self.tasks.get(&task) else { return true };
        let has_room = |(place, device): (usize, &DeviceUuid)| {
            let needed = kept.ledger_usage(place).unwrap_or(Bytes::MAX);
            let seat = |of: &TaskId| Some((*of, self.seat(*of, device, None)?.tenant));
            let others = self.tasks.iter().filter(|(other, _)| **other != task);
            let others = others.filter_map(|(other, kept)| {
                let (other, tenant) = seat(other)?;
                Some((other, tenant, kept.presence))
            });
            let own = self.usable(device).zip(seat(&task));
            own.is_some_and(|(usable, (task, tenant))| {
                needed <= tenant.request || can_return(usable, needed, (task, &tenant), others)
            })
        };
        kept.devices.iter().enumerate().all(has_room)
    }

    /// The other devices with room for all memory of a task on this one, beside what the tasks
    /// there use or may claim; those with the most room first.
    pub(crate) fn roomy(&self, device: &DeviceUuid, seat: &Seat) -> Vec<DeviceUuid> {
        let Some(kept) = self.tasks.get(&seat.task) else { return Vec::new() };
        let needed = seat.tenant.used.max(seat.tenant.request).saturating_add(MARGIN);
        let known: Vec<DeviceUuid> = self.facts.lock().devices.keys().cloned().collect();
        let others = known.into_iter().filter(|it| it != device && kept.place(it).is_none());
        let free = |device: DeviceUuid| {
            let tenants = self.tasks.keys().filter_map(|task| self.seat(*task, &device, None));
            let taken = tenants.map(|it| it.tenant.used.max(it.tenant.request));
            let taken = taken.fold(Bytes::ZERO, Bytes::saturating_add);
            Some((self.usable(&device)?.checked_sub(taken)?, device))
        };
        let mut roomy: Vec<(Bytes, DeviceUuid)> = others.filter_map(free).collect();
        roomy.retain(|(free, _)| *free >= needed);
        roomy.sort_by(|(one, _), (other, _)| other.cmp(one));
        roomy.into_iter().map(|(_, device)| device).collect()
    }
}

impl TaskLedger {
    /// The memory of a device that the task may come back to.
    pub(crate) fn held_on(&self, device: &DeviceUuid) -> Bytes {
        let held = self.holds.as_ref().filter(|(on, _)| on == device);
        held.map_or(Bytes::ZERO, |(_, bytes)| *bytes)
    }
}
