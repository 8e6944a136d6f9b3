//! Tasks that come to other devices of the node, in a move or with a resume.

use std::time::Instant;

use gpool_model::agent::MoveReason;
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_node::converge::{self, Halting, Moves};
use gpool_node::presence::MemoryPresence;

use crate::assignments::limits_of;
use crate::input::{Move, Then};
use crate::runner::Runner;
use crate::task_state::ToResume;
use gpool_shepherd::layout::claim_name;
use gpool_shepherd::message::ToShepherd;

impl Runner {
    /// Lets a task leave its devices, to go to others. A loan that is not the reason is called back
    /// first: where the task goes, there may be no room for it.
    pub(crate) fn detach(&mut self, task: TaskId, reason: MoveReason) {
        let beneficiary = match reason {
            MoveReason::Room { beneficiary } => Some(beneficiary),
            MoveReason::Closed => None,
            MoveReason::Loan { .. } => return self.leave(task),
        };
        match self.how_to_move {
            Moves::ByDriver => self.parts.shares.depart(task, beneficiary),
            Moves::Freely | Moves::No => self.leave(task),
        }
    }

    pub(crate) fn leave(&mut self, task: TaskId) {
        self.detached_at.insert(task, Instant::now());
        fail::fail_point!("agent-detach-before");
        self.shepherds.say(task, &ToShepherd::Detach);
        fail::fail_point!("agent-detach-after");
    }

    /// A task has left its devices, or could not.
    pub(crate) fn detached(&mut self, task: TaskId, is_done: bool, why: Option<String>) {
        self.not_moved.extend(why.map(|why| (task, why)));
        match is_done {
            true => self.parts.shares.at(task, MemoryPresence::Paused),
            false => self.stay(task),
        }
        self.pending_inputs.push_back(converge::Input::Detached { task, is_done });
    }

    /// Leaves a task on its devices that should have moved.
    pub(crate) fn stay(&self, task: TaskId) {
        self.parts.devices.stuck(task);
        self.parts.shares.stay(task);
    }

    /// Brings a task that left its devices to these.
    pub(crate) fn attach(&mut self, task: TaskId, devices: Vec<DeviceUuid>) {
        match self.how_to_move {
            Moves::Freely => self.say_attach(task, devices),
            Moves::ByDriver | Moves::No => self.go(task, [devices, Vec::new()], Then::Attach),
        }
    }

    pub(crate) fn say_attach(&mut self, task: TaskId, devices: Vec<DeviceUuid>) {
        fail::fail_point!("agent-attach-before");
        self.shepherds.say(task, &ToShepherd::Attach { devices });
        fail::fail_point!("agent-attach-after");
    }

    /// A task could not come to other devices, and is paused on those that it had before.
    pub(crate) fn not_attached(
        &mut self,
        task: TaskId,
        previous: Vec<DeviceUuid>,
        why: Option<String>,
    ) {
        self.not_moved.extend(why.map(|why| (task, why)));
        self.parts.shares.at(task, MemoryPresence::Paused);
        self.parts.devices.stuck(task);
        self.note_place(task, &previous, &[]);
        self.pending_inputs.push_back(converge::Input::NotAttached { task, left: previous });
    }

    /// Resumes a task. While an answer about its limits is due, the order waits for it: the task
    /// may not be limited on its devices.
    pub(crate) fn resume(&mut self, task: TaskId, order: ToResume) {
        fail::fail_point!("agent-resume-before");
        if let Some(waits) = self.resuming.get_mut(&task) {
            *waits = Some(order);
            return;
        }
        let ToResume { generation, devices, booked } = order;
        self.go(task, [devices, booked], Then::Resume(generation));
    }

    /// Sends a task to devices, once its shares are limited there.
    fn go(&mut self, task: TaskId, [to, booked]: [Vec<DeviceUuid>; 2], then: Then) {
        match self.come_to(task, &to, &booked) {
            Some(moved) => {
                if let Then::Resume(generation) = then {
                    let order = ToResume { generation, devices: to, booked: booked.clone() };
                    self.resuming.insert(task, Some(order));
                }
                self.parts.devices.limit_on(Move { then: Some((then, booked)), ..moved });
            }
            None => self.arrive(task, [to, booked], then),
        }
    }

    fn arrive(&mut self, task: TaskId, [devices, booked]: [Vec<DeviceUuid>; 2], then: Then) {
        match then {
            Then::Resume(generation) => {
                fail::fail_point!("agent-resume-limited");
                self.parts.shares.at(task, MemoryPresence::Resuming);
                self.shepherds.say(task, &ToShepherd::Resume { generation, devices, booked });
                fail::fail_point!("agent-resume-after");
            }
            Then::Attach => self.parts.shares.come(task, devices),
        }
    }

    /// Notes the devices of a paused task, and those that are booked for it if that changed.
    pub(crate) fn note_place(&self, task: TaskId, devices: &[DeviceUuid], booked: &[DeviceUuid]) {
        if let Some(moved) = self.come_to(task, devices, booked) {
            self.parts.devices.limit_on(moved);
        }
    }

    /// Notes the devices of a paused task, and lets it open these and no others: the driver opens
    /// them in the task's process during the restore. Returns the change of its limits, if it comes
    /// to other devices.
    fn come_to(&self, task: TaskId, devices: &[DeviceUuid], booked: &[DeviceUuid]) -> Option<Move> {
        let [before, slots] = self.parts.devices.moved(task, devices, booked)?;
        if let Some(filter) = self.parts.isolation.filter(&slots) {
            // If that fails, the driver can't restore there, and the task stays paused.
            let _ = self.parts.site.existing(&claim_name(task)).filter_devices(&filter);
        }
        let limits = limits_of(&slots);
        if before == slots || limits.is_empty() {
            return None;
        }
        self.parts.shares.moved(task, devices.to_vec());
        let from = before.into_iter().map(|slot| slot.device).collect();
        Some(Move { task, from, to: devices.to_vec(), limits, then: None })
    }

    /// Goes on with a task that is limited on its new devices, or leaves it paused on those that it
    /// had before.
    pub(crate) fn limited(&mut self, moved: Move, refused: Option<String>) {
        let Move { task, from, to, then: Some((then, booked)), .. } = moved else { return };
        if self.shepherds.get_mut(task).is_none() {
            return;
        }
        let waits = self.resuming.remove(&task).flatten();
        match (then, refused) {
            (Then::Resume(asked), refused)
                if waits.as_ref().is_none_or(|order| order.generation != asked) =>
            {
                if refused.is_some() {
                    self.come_to(task, &from, &from);
                }
                waits.into_iter().for_each(|order| self.resume(task, order));
            }
            (_, None) => self.arrive(task, [to, booked], then),
            (Then::Resume(generation), Some(why)) => {
                // Its limits there were not removed.
                self.come_to(task, &from, &from);
                self.halted(task, generation, Halting::NotMoved { why, devices: from });
            }
            (Then::Attach, why) => self.not_attached(task, from, why),
        }
    }
}
