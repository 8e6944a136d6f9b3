//! Asks a source for all devices at once, each on a thread of its own and with a deadline, and
//! remembers what each last said. A device that does not answer is `unknown` until it does; the
//! others never wait for it a second time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpool_model::device::{Device, DeviceHealth, DeviceProcess, DeviceSample, Link};
use gpool_model::id::DeviceUuid;
use gpool_model::unit::Timestamp;

use crate::cadence::Wanted;
use crate::process::Lookup;
use crate::source::{Described, DeviceSource, Inventory, Outline, RawProcess, Silent, SourceError};
use crate::worker::{Answer, Worker};

/// The one place from which an agent asks for its devices.
pub struct Monitor {
    source: Arc<dyn DeviceSource>,
    front: Worker,
    outline: Option<Outline>,
    /// By index; each MIG instance has one of its own.
    cards: BTreeMap<u32, Card>,
    lookup: Lookup,
}

/// What is known of one device now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Whether it can be trusted with work, from all that it answered so far.
    pub health: DeviceHealth,
    /// The last values; all absent while the device does not answer.
    pub sample: DeviceSample,
    /// Its compute processes, by pid. `None` if they were not asked for, if there was no answer
    /// (then `health` says so), or if the driver can't list them.
    pub processes: Option<Vec<DeviceProcess>>,
}

/// One device and its thread.
struct Card {
    worker: Worker,
    device: Option<Device>,
    sample: DeviceSample,
    reported: DeviceHealth,
    /// The answer that is missing, if one is.
    hung: Option<SourceError>,
    /// Questions that were last answered by an error.
    failed: BTreeMap<Question, SourceError>,
    /// When each process was first seen: by pid, and when it started.
    seen: BTreeMap<u32, (Option<u64>, Timestamp)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Description,
    Usage,
    Thermal,
    Processes,
    Health,
}

/// The answers to one look; `None` for what was not asked.
struct Read {
    usage: Option<Result<DeviceSample, SourceError>>,
    thermal: Option<Result<DeviceSample, SourceError>>,
    processes: Option<Result<Option<Vec<RawProcess>>, SourceError>>,
    health: Option<Result<DeviceHealth, SourceError>>,
}

impl Monitor {
    /// What an inventory may take: the first one wakes devices without persistence mode.
    pub const INVENTORY_TIMEOUT: Duration = Duration::from_secs(30);
    /// What a look may take: calls take milliseconds, on a device that has to wake a second.
    pub const LOOK_TIMEOUT: Duration = Duration::from_secs(2);

    /// A monitor of a source's devices. Threads start with the first question.
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

    /// All devices with their links. It has three steps, each of which may take a third of the
    /// timeout; a first inventory may wake devices, which takes seconds.
    ///
    /// # Errors
    /// If the source as a whole never said how many devices there are.
    pub fn inventory(&mut self, timeout: Duration) -> Result<Inventory, SourceError> {
        let step = timeout / 3;
        let outline = self.outline(step)?;
        let answered = self.describe(outline.n_devices, step);
        self.link(&answered, step);
        let mut inventory =
            Inventory { driver: outline.driver, devices: Vec::new(), silent: Vec::new() };
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

    /// How many there are can't change while the driver is in use, so it is asked until known.
    fn outline(&mut self, timeout: Duration) -> Result<Outline, SourceError> {
        if let Some(outline) = &self.outline {
            return Ok(outline.clone());
        }
        let source = Arc::clone(&self.source);
        let answer = self.front.ask("all its devices", move || source.outline());
        let outline = answer.wait(Instant::now() + timeout)??;
        Ok(self.outline.insert(outline).clone())
    }

    /// Describes all devices, and says which answered.
    fn describe(&mut self, n_devices: u32, timeout: Duration) -> Vec<(u32, DeviceUuid)> {
        let deadline = Instant::now() + timeout;
        let answers: Vec<(u32, Answer<_>)> = (0..n_devices)
            .map(|index| {
                let card = self.cards.entry(index).or_insert_with(|| Card::new(index));
                let source = Arc::clone(&self.source);
                (index, card.worker.ask("what it is", move || source.describe(index)))
            })
            .collect();
        let mut answered = Vec::new();
        for (index, answer) in answers {
            let Some(card) = self.cards.get_mut(&index) else { continue };
            let Some(described) = card.answered(answer, deadline) else { continue };
            if let Some(described) = card.settle(Question::Description, described) {
                let Described { device, instances } = described;
                answered.push((index, device.uuid.clone()));
                card.is_as(device);
                self.take_instances(index, instances);
            }
        }
        answered
    }

    /// A device is divided into these now.
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
                .and_then(|links| card.settle(Question::Description, links));
            if let (Some(device), Some(links)) = (&mut card.device, links) {
                device.links = links;
            }
        }
    }

    /// Asks devices, all at once, and waits for those that answer in time. A device that still
    /// owes an earlier answer costs no time. The time is the caller's, for
    /// [`DeviceProcess::seen_since`].
    pub fn look(
        &mut self,
        wanted: &BTreeMap<DeviceUuid, Wanted>,
        now: Timestamp,
        timeout: Duration,
    ) -> BTreeMap<DeviceUuid, Observation> {
        let deadline = Instant::now() + timeout;
        let mut answers = Vec::new();
        let mut observations = BTreeMap::new();
        for (uuid, wanted) in wanted {
            match self.cards.iter_mut().find(|(_, card)| card.is(uuid)) {
                Some((index, card)) => {
                    answers.push((*index, uuid, card.ask(&self.source, uuid, *wanted)));
                }
                None => {
                    let health = SourceError::NoDevice(uuid.clone()).health();
                    let sample = DeviceSample::default();
                    observations
                        .insert(uuid.clone(), Observation { health, sample, processes: None });
                }
            }
        }
        for (index, uuid, answer) in answers {
            let Some(card) = self.cards.get_mut(&index) else { continue };
            let processes = match card.answered(answer, deadline) {
                Some(read) => card.take(read).map(|raw| card.people(raw, &mut self.lookup, now)),
                None => None,
            };
            let (health, sample) = (card.health(), card.sample);
            observations.insert(uuid.clone(), Observation { health, sample, processes });
        }
        observations
    }

    /// Asks one device: just before a start, whether it is still clean.
    pub fn look_at(
        &mut self,
        uuid: &DeviceUuid,
        wanted: Wanted,
        now: Timestamp,
        timeout: Duration,
    ) -> Observation {
        let all = self.look(&BTreeMap::from([(uuid.clone(), wanted)]), now, timeout);
        all.into_values().next().expect("a look has an observation for each device asked for")
    }
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
            seen: BTreeMap::new(),
        }
    }

    /// It describes itself so: who does is not gone, whatever it said when it was last asked.
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
        wanted: Wanted,
    ) -> Answer<Read> {
        let again = |question| self.failed.contains_key(&question);
        let usage = wanted.usage || again(Question::Usage);
        let thermal = wanted.thermal || again(Question::Thermal);
        let processes = wanted.processes || again(Question::Processes);
        let health = wanted.health || again(Question::Health) || self.hung.is_some();
        let asked = match (processes, usage || thermal) {
            (true, true) => "its use and its processes",
            (true, false) => "its processes",
            (false, true) => "its use",
            (false, false) => "its health",
        };
        let (source, uuid) = (Arc::clone(source), uuid.clone());
        self.worker.ask(asked, move || Read {
            usage: usage.then(|| source.usage(&uuid)),
            thermal: thermal.then(|| source.thermal(&uuid)),
            processes: processes.then(|| source.processes(&uuid)),
            health: health.then(|| source.health(&uuid)),
        })
    }

    /// Waits for an answer, and remembers if there is none.
    fn answered<T>(&mut self, answer: Answer<T>, deadline: Instant) -> Option<T> {
        match answer.wait(deadline) {
            Ok(read) => {
                self.hung = None;
                Some(read)
            }
            Err(error) => {
                self.hung = Some(error);
                // Old values would look like new ones.
                self.sample = DeviceSample::default();
                None
            }
        }
    }

    /// Files a question's answer under errors or not.
    fn settle<T>(&mut self, question: Question, answer: Result<T, SourceError>) -> Option<T> {
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

    /// Takes a look's answers in; the list of processes is what remains to be worked on.
    fn take(&mut self, read: Read) -> Option<Vec<RawProcess>> {
        if let Some(answer) = read.usage {
            let usage = self.settle(Question::Usage, answer).unwrap_or_default();
            self.sample.memory_used = usage.memory_used;
            self.sample.memory_free = usage.memory_free;
            self.sample.utilization_percent = usage.utilization_percent;
        }
        if let Some(answer) = read.thermal {
            let thermal = self.settle(Question::Thermal, answer).unwrap_or_default();
            self.sample.temperature_c = thermal.temperature_c;
            self.sample.power_mw = thermal.power_mw;
        }
        if let Some(answer) = read.health
            && let Some(reported) = self.settle(Question::Health, answer)
        {
            // Whatever failed when it was described no longer matters to one that reports.
            if self.device.is_some() {
                self.failed.remove(&Question::Description);
            }
            self.reported = reported;
        }
        read.processes.and_then(|answer| self.settle(Question::Processes, answer)).flatten()
    }

    /// Says whose processes they are and since when they are seen.
    fn people(
        &mut self,
        raw: Vec<RawProcess>,
        lookup: &mut Lookup,
        now: Timestamp,
    ) -> Vec<DeviceProcess> {
        let before = std::mem::take(&mut self.seen);
        let mut processes: Vec<DeviceProcess> = Vec::with_capacity(raw.len());
        for raw in raw {
            let found = lookup.identify(raw.pid);
            let seen_since = match before.get(&raw.pid) {
                Some((started, since)) if *started == found.started => *since,
                _ => now,
            };
            self.seen.insert(raw.pid, (found.started, seen_since));
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

    /// The worst of what is known: no answer, a device that is gone, a failed question, a report.
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
