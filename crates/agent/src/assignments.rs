//! The devices that the running tasks were given.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use gpool_device::{LOAD_VARIABLE, Observation, PollRequest, SimLoad, Stated, Use};
use gpool_model::device::{Device, Guest};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::{Bytes, Millis};
use gpool_model::{Slot, SlotPart};
use gpool_node::converge::Seats;
use gpool_sys::proc;

/// The devices of the running tasks, by the process IDs of their shepherds.
pub(crate) type Owners = Arc<Mutex<BTreeMap<u32, Assignment>>>;

/// The devices that a task was given.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub task: TaskId,
    pub seats: Seats,
    /// How long it does not use them before it counts as idle; `None` if it never does.
    pub idle_after: Option<Millis>,
    /// Whether it could not move when it had to.
    pub is_stuck: bool,
}

impl Assignment {
    /// The memory of a device that the task may use: `None` if it was not given the device,
    /// `Some(None)` if it has it alone.
    pub fn limit_on(&self, device: &DeviceUuid) -> Option<Option<Bytes>> {
        let slot = self.seats.slots.iter().find(|slot| slot.device == *device)?;
        Some(match slot.part {
            SlotPart::Whole | SlotPart::Instance { .. } => None,
            SlotPart::Share { limit, .. } => Some(limit),
        })
    }

    /// The task with the device that it booked, if it is a guest on this one.
    pub fn guest_on(&self, device: &DeviceUuid) -> Option<Guest> {
        let mut places = self.seats.slots.iter().zip(&self.seats.booked);
        let (_, booked) =
            places.find(|(slot, booked)| slot.device == *device && *booked != device)?;
        Some(Guest { task: self.task, booked: booked.clone(), is_stuck: self.is_stuck })
    }
}

/// The running tasks on each simulated device. Stopped processes use none.
pub(crate) fn loads(owners: &BTreeMap<u32, Assignment>) -> BTreeMap<DeviceUuid, Vec<SimLoad>> {
    let mut loads = BTreeMap::<DeviceUuid, Vec<SimLoad>>::new();
    for (shepherd, given) in owners {
        let program = proc::children_now(*shepherd).into_iter().next();
        let Some(program) = program.filter(|it| proc::stat(*it).is_some_and(|it| it.state != b'T'))
        else {
            continue;
        };
        let stated = proc::variable_at_start(program, LOAD_VARIABLE);
        let stated = stated.and_then(|it| Stated::parse(std::str::from_utf8(&it).ok()?));
        for slot in &given.seats.slots {
            let milli = if slot.part.is_alone() { 1000 } else { slot.part.charge().get() };
            let load = SimLoad { task: given.task, milli, stated };
            loads.entry(slot.device.clone()).or_default().push(load);
        }
    }
    loads
}

/// The most memory on each device of which the slots are shares.
pub(crate) fn limits_of(slots: &[Slot]) -> Vec<(DeviceUuid, Bytes)> {
    let limit = |slot: &Slot| match slot.part {
        SlotPart::Share { limit, .. } => Some((slot.device.clone(), limit)),
        SlotPart::Whole | SlotPart::Instance { .. } => None,
    };
    slots.iter().filter_map(limit).collect()
}

/// The tasks that may use a device, each with what its processes use of it.
pub(crate) fn uses(
    owners: &BTreeMap<u32, Assignment>,
    device: &DeviceUuid,
    observation: &Observation,
    owner: &dyn Fn(u32) -> Option<TaskId>,
) -> Vec<Use> {
    let given = owners.values().filter_map(|it| Some((it.task, it.limit_on(device)?)));
    let processes = observation.processes.as_deref().unwrap_or_default();
    let memory = |task| {
        let own = processes.iter().filter(|process| owner(process.pid) == Some(task));
        own.filter_map(|process| process.memory).reduce(Bytes::saturating_add)
    };
    let compute = |task| {
        let all = observation.activity.as_ref()?.iter();
        let own = all.filter(|(pid, _)| owner(**pid) == Some(task));
        Some(own.map(|(_, it)| it.compute_percent).reduce(u32::saturating_add)?.min(100))
    };
    let used =
        |(task, limit)| Use { task, limit, memory: memory(task), compute_percent: compute(task) };
    given.map(used).collect()
}

/// Notes the guests of each device. Where the node can't move tasks, none can leave.
pub(crate) fn set_guests(
    devices: &mut [Device],
    owners: &BTreeMap<u32, Assignment>,
    can_move: bool,
) {
    for device in devices {
        let guests = owners.values().filter_map(|given| given.guest_on(&device.uuid));
        let guests = guests.map(|it| Guest { is_stuck: it.is_stuck || !can_move, ..it });
        device.guests = guests.collect();
    }
}

/// The question for the processes on the devices of a task.
pub(crate) fn processes_of(
    owners: &BTreeMap<u32, Assignment>,
    task: TaskId,
) -> BTreeMap<DeviceUuid, PollRequest> {
    let given = owners.values().filter(|given| given.task == task);
    let devices = given.flat_map(|given| given.seats.devices());
    devices.map(|device| (device, PollRequest::PROCESSES)).collect()
}

/// A process of a task that is on one of its devices, for people. A device that does not list its
/// processes counts as used.
pub(crate) fn user_among(
    owners: &BTreeMap<u32, Assignment>,
    task: TaskId,
    observations: &BTreeMap<DeviceUuid, Observation>,
) -> Option<String> {
    let is_own = |pid: u32| {
        let shepherd = proc::nearest_ancestor(pid, &|pid| owners.contains_key(&pid));
        shepherd.and_then(|shepherd| owners.get(&shepherd)).is_some_and(|it| it.task == task)
    };
    observations.iter().find_map(|(device, observation)| {
        let Some(processes) = &observation.processes else {
            return Some(format!("the driver does not list the processes on GPU {device}"));
        };
        let process = processes.iter().find(|process| is_own(process.pid))?;
        let name = process.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        Some(format!("its process {}{name} is still on GPU {device}", process.pid))
    })
}
