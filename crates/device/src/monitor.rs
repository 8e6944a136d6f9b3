//! Polls all devices of a source at once, each on its own thread and with a deadline, and remembers
//! the last answers. A device that does not answer is `unknown` until it does; the others never
//! wait for it a second time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_model::device::{Device, DeviceDetail, DeviceHealth, DeviceProcess, DeviceSample, Link};
use gpool_model::id::DeviceUuid;
use gpool_model::mig_layout::{MigChange, MigDevice, MigError, MigInstance, MigReport};
use gpool_model::unit::{Bytes, Timestamp};

use crate::cadence::PollRequest;
use crate::observation::Observation;
use crate::process::Lookup;
use crate::sim_load::SimLoad;
use crate::source::{
    Described, DeviceSource, Inventory, Outline, ProcessActivity, RawProcess, Silent, SourceError,
};
use crate::worker::{PendingAnswer, Worker};

/// The agent's view of its devices.
pub struct Monitor {
    source: Arc<dyn DeviceSource>,
    front: Worker,
    outline: Option<Outline>,
    /// By index; MIG instances have entries of their own.
    cards: BTreeMap<u32, Card>,
    lookup: Lookup,
}

/// One device and its thread.
struct Card {
    worker: Worker,
    device: Option<Device>,
    sample: DeviceSample,
    reported: DeviceHealth,
    /// The missing answer, if the device has not answered.
    hung: Option<SourceError>,
    /// Questions that were last answered with an error.
    failed: BTreeMap<PollTopic, SourceError>,
    /// When each process was first seen, with its start time, by process ID.
    sightings: BTreeMap<u32, (Option<u64>, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PollTopic {
    Description,
    Usage,
    Detail,
    Processes,
    Health,
}

/// The answers to one poll; `None` for values that were not requested.
struct PollAnswers {
    usage: Option<Result<DeviceSample, SourceError>>,
    detail: Option<Result<DeviceDetail, SourceError>>,
    processes: Option<Result<Option<Vec<RawProcess>>, SourceError>>,
    health: Option<Result<DeviceHealth, SourceError>>,
}

impl Monitor {
    /// The time for an inventory: the first one wakes devices without persistence mode.
    pub const INVENTORY_TIMEOUT: Duration = Duration::from_secs(30);
    /// The time for a poll: calls take milliseconds, or a second if the device has to wake.
    pub const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

    /// A monitor of a source's devices. Threads start with the first poll.
    #[must_use]
    pub fn new(source: Arc<dyn DeviceSource>) -> Self {
        Self {
            source,
            front: Worker::new("gpu-outline".into()),
            outline: None,
            cards: BTreeMap::new(),
            lookup: Lookup::new(),
        }
    }

    /// Returns all devices with their links, in four steps of a quarter of the timeout each. The
    /// first inventory may wake devices, which takes seconds.
    ///
    /// # Errors
    /// If the source has never reported the number of devices.
    pub fn inventory(&mut self, timeout: Duration) -> Result<Inventory, SourceError> {
        let step = timeout / 4;
        let outline = self.outline(step)?;
        let answered = self.describe(outline.n_devices, step);
        self.link(&answered, step);
        let nvlink = self.nvlink_domain(step);
        let mut inventory =
            Inventory { driver: outline.driver, nvlink, devices: Vec::new(), silent: Vec::new() };
        for (index, card) in &self.cards {
            match &card.device {
                Some(device) => {
                    inventory.devices.push(Device { health: card.health(), ..device.clone() });
                }
                None => inventory.silent.push(Silent { index: *index, why: card.why() }),
            }
        }
        Ok(inventory)
    }

    /// The number of devices can't change while the driver is in use, so it is asked for until it
    /// is known.
    fn outline(&mut self, timeout: Duration) -> Result<Outline, SourceError> {
        if let Some(outline) = &self.outline {
            return Ok(outline.clone());
        }
        let source = Arc::clone(&self.source);
        let answer = self.front.ask("list of devices", move || source.outline());
        let outline = answer.wait(Instant::now() + timeout)??;
        Ok(self.outline.insert(outline).clone())
    }

    fn nvlink_domain(&mut self, timeout: Duration) -> Option<String> {
        let source = Arc::clone(&self.source);
        let answer = self.front.ask("NVLink domain", move || source.nvlink_domain());
        answer.wait(Instant::now() + timeout).ok()?
    }

    /// Describes all devices; returns those that answered.
    fn describe(&mut self, n_devices: u32, timeout: Duration) -> Vec<(u32, DeviceUuid)> {
        let deadline = Instant::now() + timeout;
        let answers: Vec<(u32, PendingAnswer<_>)> = (0..n_devices)
            .map(|index| {
                let card = self.cards.entry(index).or_insert_with(|| Card::new(index));
                let source = Arc::clone(&self.source);
                (index, card.worker.ask("properties of the device", move || source.describe(index)))
            })
            .collect();
        let mut answered = Vec::new();
        for (index, answer) in answers {
            let Some(card) = self.cards.get_mut(&index) else { continue };
            let Some(described) = card.answered(answer, deadline) else { continue };
            if let Some(described) = card.settle(PollTopic::Description, described) {
                let Described { device, instances } = described;
                answered.push((index, device.uuid.clone()));
                card.is_as(device);
                self.take_instances(index, instances);
            }
        }
        answered
    }

    /// Replaces the MIG instances of a device.
    fn take_instances(&mut self, parent: u32, instances: Vec<Device>) {
        let is_there = |card: &Card| {
            card.device.as_ref().is_none_or(|it| {
                it.instance.as_ref().is_none_or(|instance| instance.parent != parent)
                    || instances.iter().any(|one| (one.index, &one.uuid) == (it.index, &it.uuid))
            })
        };
        self.cards.retain(|_, card| is_there(card));
        for instance in instances {
            let index = instance.index;
            self.cards.entry(index).or_insert_with(|| Card::new(index)).is_as(instance);
        }
    }

    fn link(&mut self, answered: &[(u32, DeviceUuid)], timeout: Duration) {
        let deadline = Instant::now() + timeout;
        let mut answers = Vec::new();
        for (index, uuid) in answered {
            let Some(card) = self.cards.get_mut(index) else { continue };
            let (source, me) = (Arc::clone(&self.source), uuid.clone());
            let others: Vec<_> =
                answered.iter().map(|(_, other)| other).filter(|it| *it != uuid).cloned().collect();
            let ask = move || source.links(&me, &others);
            answers.push((*index, card.worker.ask("its links", ask)));
        }
        for (index, answer) in answers {
            let Some(card) = self.cards.get_mut(&index) else { continue };
            let links: Option<BTreeMap<DeviceUuid, Link>> = card
                .answered(answer, deadline)
                .and_then(|links| card.settle(PollTopic::Description, links));
            if let (Some(device), Some(links)) = (&mut card.device, links) {
                device.links = links;
            }
        }
    }

    /// Polls devices, all at once, and returns the answers that come in time. A device that has not
    /// answered an earlier call adds no waiting time. `now` is for [`DeviceProcess::seen_since`].
    pub fn look(
        &mut self,
        requests: &BTreeMap<DeviceUuid, PollRequest>,
        now: Timestamp,
        timeout: Duration,
    ) -> BTreeMap<DeviceUuid, Observation> {
        let deadline = Instant::now() + timeout;
        let mut answers = Vec::new();
        let mut observations = BTreeMap::new();
        for (uuid, wanted) in requests {
            match self.cards.iter_mut().find(|(_, card)| card.is(uuid)) {
                Some((index, card)) => {
                    answers.push((*index, uuid, card.ask(&self.source, uuid, *wanted)));
                }
                None => {
                    let health = SourceError::NoDevice(uuid.clone()).health();
                    let sample = DeviceSample::default();
                    observations.insert(
                        uuid.clone(),
                        Observation { health, sample, processes: None, activity: None },
                    );
                }
            }
        }
        for (index, uuid, answer) in answers {
            let Some(card) = self.cards.get_mut(&index) else { continue };
            let raw = card.answered(answer, deadline).and_then(|read| card.take(read));
            let activity = raw.as_deref().and_then(activity);
            let processes = raw.map(|raw| card.people(raw, &mut self.lookup, now));
            let (health, sample) = (card.health(), card.sample.clone());
            observations.insert(uuid.clone(), Observation { health, sample, processes, activity });
        }
        observations
    }

    /// Tells simulated devices which tasks use them; see [`DeviceSource::simulate`].
    pub fn simulate(&self, loads: impl FnOnce() -> BTreeMap<DeviceUuid, Vec<SimLoad>>) {
        if self.source.is_simulated() {
            self.source.simulate(loads());
        }
    }

    /// Changes the MIG instances of a device, which may take seconds. The next inventory shows the
    /// change. Returns the new instance.
    ///
    /// # Errors
    /// If the device is gone, or the driver refuses or does not answer in time; after a timeout the
    /// change may still be made.
    pub fn divide(
        &mut self,
        change: &MigChange,
        timeout: Duration,
    ) -> Result<Option<DeviceUuid>, MigError> {
        let deadline = Instant::now() + timeout;
        let (source, change) = (Arc::clone(&self.source), change.clone());
        let uuid = match &change {
            MigChange::Create { device, .. } => device.clone(),
            MigChange::Destroy { instance } => self.whole_of(instance)?,
        };
        let work = move || match &change {
            MigChange::Create { device, profile } => {
                source.create_instance(device, profile).map(Some)
            }
            MigChange::Destroy { instance } => source.destroy_instance(instance).map(|()| None),
        };
        let answer = self.card(&uuid)?.worker.ask("MIG instances", work);
        answer.wait(deadline).map_err(|error| of_driver(&error))?
    }

    /// The devices with MIG mode, with their instances.
    ///
    /// # Errors
    /// If a device is gone, or the driver does not answer in time.
    pub fn divisions(&mut self, timeout: Duration) -> Result<MigReport, MigError> {
        let deadline = Instant::now() + timeout;
        let mut answers = Vec::new();
        for card in self.cards.values_mut() {
            let Some(device) = card.device.as_ref().filter(|it| it.is_divided()) else { continue };
            let (source, uuid, index) =
                (Arc::clone(&self.source), device.uuid.clone(), device.index);
            let asked = uuid.clone();
            let ask = card.worker.ask("MIG profiles", move || source.mig_sizes(&asked));
            answers.push((uuid, index, ask));
        }
        let mut report = MigReport::default();
        for (uuid, index, answer) in answers {
            let mut sizes = answer.wait(deadline).map_err(|error| of_driver(&error))??;
            for instance in sizes.iter_mut().flat_map(|size| &mut size.instances) {
                self.give_index(instance);
            }
            report.devices.push(MigDevice { uuid, index, sizes });
        }
        Ok(report)
    }

    /// Adds the index of an instance; an instance that is in no inventory yet gets none.
    fn give_index(&self, instance: &mut MigInstance) {
        let Some((uuid, index)) = &mut instance.device else { return };
        let known = self.cards.iter().find(|(_, card)| card.is(uuid));
        *index = known.map_or(0, |(index, _)| *index);
    }

    /// The device that an instance is a part of.
    fn whole_of(&self, instance: &DeviceUuid) -> Result<DeviceUuid, MigError> {
        let devices = || self.cards.values().filter_map(|card| card.device.as_ref());
        let part = devices().find(|device| device.uuid == *instance);
        let part = part.and_then(|device| device.instance.as_ref());
        let parent = part.ok_or(MigError::NoSuchDevice)?.parent;
        let whole = devices().find(|device| device.index == parent);
        whole.map(|device| device.uuid.clone()).ok_or(MigError::NoSuchDevice)
    }

    fn card(&mut self, uuid: &DeviceUuid) -> Result<&mut Card, MigError> {
        self.cards.values_mut().find(|card| card.is(uuid)).ok_or(MigError::NoSuchDevice)
    }

    /// Limits the memory of a control group on a device; see [`DeviceSource::limit_memory`].
    ///
    /// # Errors
    /// If the driver can't do this, refuses it, or does not answer in time.
    pub fn limit_memory(
        &mut self,
        uuid: &DeviceUuid,
        group: &Path,
        limit: Option<Bytes>,
        timeout: Duration,
    ) -> Result<(), SourceError> {
        let no_device = || SourceError::NoDevice(uuid.clone());
        let card = self.cards.values_mut().find(|card| card.is(uuid)).ok_or_else(no_device)?;
        let (source, uuid, group) = (Arc::clone(&self.source), uuid.clone(), group.to_owned());
        let call = move || source.limit_memory(&uuid, &group, limit);
        card.worker.ask("memory limits", call).wait(Instant::now() + timeout)?
    }

    /// Polls one device, for example just before a start.
    pub fn look_at(
        &mut self,
        uuid: &DeviceUuid,
        request: PollRequest,
        now: Timestamp,
        timeout: Duration,
    ) -> Observation {
        let all = self.look(&BTreeMap::from([(uuid.clone(), request)]), now, timeout);
        all.into_values().next().expect("a look returns an observation for each device")
    }
}

/// How much the processes of a list used their device; `None` if that is unknown for one.
fn activity(list: &[RawProcess]) -> Option<BTreeMap<u32, ProcessActivity>> {
    list.iter().map(|process| Some((process.pid, process.activity?))).collect()
}

fn of_driver(error: &SourceError) -> MigError {
    MigError::Driver { why: error.to_string() }
}

impl Card {
    fn new(index: u32) -> Self {
        Self {
            worker: Worker::new(format!("gpu-{index}")),
            device: None,
            sample: DeviceSample::default(),
            reported: DeviceHealth::Healthy,
            hung: None,
            failed: BTreeMap::new(),
            sightings: BTreeMap::new(),
        }
    }

    /// Takes a device's description. A device that describes itself is not gone, whatever its last
    /// error was.
    fn is_as(&mut self, device: Device) {
        self.failed
            .retain(|_, error| !matches!(error, SourceError::Lost | SourceError::NeedsReset));
        self.reported = device.health.clone();
        self.device = Some(device);
    }

    fn is(&self, uuid: &DeviceUuid) -> bool {
        self.device.as_ref().is_some_and(|device| device.uuid == *uuid)
    }

    fn ask(
        &mut self,
        source: &Arc<dyn DeviceSource>,
        uuid: &DeviceUuid,
        request: PollRequest,
    ) -> PendingAnswer<PollAnswers> {
        let again = |question| self.failed.contains_key(&question);
        let usage = request.usage || again(PollTopic::Usage);
        let detail = request.detail || again(PollTopic::Detail);
        let processes = request.processes || again(PollTopic::Processes);
        let health = request.health || again(PollTopic::Health) || self.hung.is_some();
        let asked = match (processes, usage || detail) {
            (true, true) => "usage and processes of the device",
            (true, false) => "its processes",
            (false, true) => "its use",
            (false, false) => "its health",
        };
        let (source, uuid) = (Arc::clone(source), uuid.clone());
        self.worker.ask(asked, move || PollAnswers {
            // First: it reads the driver's events, which the detail contains.
            health: health.then(|| source.health(&uuid)),
            usage: usage.then(|| source.usage(&uuid)),
            detail: detail.then(|| source.detail(&uuid)),
            processes: processes.then(|| source.processes(&uuid)),
        })
    }

    /// Waits for an answer, and notes if there is none.
    fn answered<T>(&mut self, answer: PendingAnswer<T>, deadline: Instant) -> Option<T> {
        match answer.wait(deadline) {
            Ok(read) => {
                self.hung = None;
                Some(read)
            }
            Err(error) => {
                self.hung = Some(error);
                // Old values would look current.
                self.sample = DeviceSample::default();
                None
            }
        }
    }

    /// Notes whether a question was answered or failed.
    fn settle<T>(&mut self, question: PollTopic, answer: Result<T, SourceError>) -> Option<T> {
        match answer {
            Ok(value) => {
                self.failed.remove(&question);
                Some(value)
            }
            Err(error) => {
                self.failed.insert(question, error);
                None
            }
        }
    }

    /// Stores the answers of a poll; returns the list of processes for further work.
    fn take(&mut self, read: PollAnswers) -> Option<Vec<RawProcess>> {
        if let Some(answer) = read.usage {
            let usage = self.settle(PollTopic::Usage, answer).unwrap_or_default();
            self.sample = DeviceSample { detail: std::mem::take(&mut self.sample.detail), ..usage };
        }
        if let Some(answer) = read.detail {
            self.sample.detail = self.settle(PollTopic::Detail, answer).unwrap_or_default();
        }
        if let Some(answer) = read.health
            && let Some(reported) = self.settle(PollTopic::Health, answer)
        {
            // A device that reports its health is usable even if describing it failed.
            if self.device.is_some() {
                self.failed.remove(&PollTopic::Description);
            }
            self.reported = reported;
        }
        read.processes.and_then(|answer| self.settle(PollTopic::Processes, answer)).flatten()
    }

    /// Adds each process's user, program and first-seen time.
    fn people(
        &mut self,
        raw: Vec<RawProcess>,
        lookup: &mut Lookup,
        now: Timestamp,
    ) -> Vec<DeviceProcess> {
        let before = std::mem::take(&mut self.sightings);
        let mut processes: Vec<DeviceProcess> = Vec::with_capacity(raw.len());
        for raw in raw {
            let found = lookup.identify(raw.pid);
            let seen_since = match before.get(&raw.pid) {
                Some((started, since)) if *started == found.started => *since,
                _ => now,
            };
            self.sightings.insert(raw.pid, (found.started, seen_since));
            processes.push(DeviceProcess {
                pid: raw.pid,
                user: raw.user.or(found.user),
                name: raw.name.or(found.name),
                memory: raw.memory,
                seen_since,
            });
        }
        processes
    }

    /// The worst known state: no answer, a lost device, a failed question, a reported fault.
    fn health(&self) -> DeviceHealth {
        if let Some(hung) = &self.hung {
            return hung.health();
        }
        if self.failed.values().any(|error| *error == SourceError::Lost) {
            return DeviceHealth::Lost;
        }
        match self.failed.values().next() {
            Some(error) if self.reported == DeviceHealth::Healthy => error.health(),
            _ => self.reported.clone(),
        }
    }

    fn why(&self) -> String {
        let error = self.hung.as_ref().or_else(|| self.failed.values().next());
        error.map(SourceError::to_string).unwrap_or_default()
    }
}
