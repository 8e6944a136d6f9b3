//! The thread that polls the devices: which there are, whether they are healthy, and whether
//! unknown processes use them. It also checks a task's devices before each launch.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpool_checkpoint::Drivers;
use gpool_device::{
    Belongs, Cadence, IdleWatch, Ignore, Meter, Monitor, Observation, Opened, Pausing, PollRequest,
    Schedule, UnmanagedGrace, sort_processes,
};
use gpool_model::agent::{Report, Stamp, TaskEnd, Terms};
use gpool_model::device::{Device, DeviceHealth, DeviceSample};
use gpool_model::id::{DeviceUuid, Generation, TaskId};
use gpool_model::job::GpuUsage;
use gpool_model::node::Remap;
use gpool_model::resource::Resources;
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_sys::proc;

use crate::assignments::{
    Assignment, Owners, limits_of, loads, processes_of, set_guests, user_among, uses,
};
use crate::config::AgentConfig;
use crate::division;
use crate::enforcement::enforced;
use crate::facts::{self, now};
use crate::idle::{accumulate_samples, activities, idle_tasks, same};
use crate::input::{Division, InputSender, Move, ThreadInput};
use crate::job_files::JobFiles;
use crate::remap::Probed;
use crate::shared_facts::note;
use gpool_shepherd::layout::Layout;
use gpool_shepherd::message::Checkpoints;

mod about;
mod caps;
mod last;
mod mig;
mod moves;

pub(crate) use about::About;

/// The last sample of each device.
pub(crate) type Samples = Arc<Mutex<BTreeMap<DeviceUuid, DeviceSample>>>;

/// How long a first inventory may take: it may wake devices.
const INVENTORY: Duration = Duration::from_secs(10);
/// How long a poll may take before a device counts as not answering.
const LOOK: Duration = Duration::from_secs(2);
/// How often the thread checks which devices are due for a poll.
const TICK: Duration = Duration::from_secs(1);
/// How often the inventory is repeated until a server sends an order.
const ANNOUNCE: Duration = Duration::from_secs(5);
/// How often devices that have never answered are polled again.
const RETRY: Millis = Millis::from_secs(10);

/// The agent's handle of the thread.
pub(crate) struct Devices {
    questions: Sender<DeviceQuestion>,
    owners: Owners,
    meter: Arc<Mutex<Meter>>,
    is_heard: Arc<AtomicBool>,
    /// Whether tasks leave nothing on a device.
    can_move: bool,
    /// Whether shares get gpool's library.
    has_library: bool,
    checkpoints: Option<Checkpoints>,
}

enum DeviceQuestion {
    /// Whether a task's devices can be used.
    Check { task: TaskId, devices: Vec<DeviceUuid>, limits: Vec<(DeviceUuid, Bytes)> },
    /// Other limits for a task that runs, where the driver applies them.
    Resize { task: TaskId, limits: Vec<(DeviceUuid, Bytes)> },
    /// Limits for a paused task on its new devices.
    Move(Move),
    /// Whether no process of a task is on its devices.
    Vacated { task: TaskId, generation: Generation },
    /// The errors of the devices of a failed task.
    Ended { task: TaskId, devices: Vec<DeviceUuid>, end: Box<TaskEnd> },
    /// The MIG instances, after a change if there is one.
    Divide(Division),
}

struct Asker {
    monitor: Option<Monitor>,
    /// The driver, or the reason why there are no devices.
    from: String,
    /// The NVLink domain of the devices.
    nvlink: Option<String>,
    address: String,
    devices: Vec<Device>,
    /// The devices and the notable tasks, as last reported.
    reported: Option<(Vec<Device>, facts::Notable)>,
    watch: IdleWatch,
    reported_at: Instant,
    /// Whether a server has sent an order; before that, reports may have been lost.
    is_heard: Arc<AtomicBool>,
    /// When devices that have never answered were last polled; `None` if all have answered.
    incomplete: Option<Timestamp>,
    schedule: Schedule,
    grace: UnmanagedGrace,
    ignore: Ignore,
    capacity: Resources,
    /// Whether tasks leave nothing on a device.
    can_move: bool,
    probed: Probed,
    owners: Owners,
    meter: Arc<Mutex<Meter>>,
    about: About,
    /// The devices of the driver's lists of processes.
    listing: BTreeSet<DeviceUuid>,
    /// Whether the driver can limit the memory of control groups, by device; else why not.
    limits: BTreeMap<DeviceUuid, Result<(), String>>,
    inputs: InputSender,
    job_files: JobFiles,
}

impl Devices {
    pub(crate) fn start(
        config: &AgentConfig,
        opened: Opened,
        about: About,
        inputs: InputSender,
    ) -> io::Result<Self> {
        let (owners, meter) = (Owners::default(), Arc::<Mutex<Meter>>::default());
        let is_heard = Arc::new(AtomicBool::new(false));
        let pausing = match &opened {
            Opened::Source(source) => source.pausing(),
            Opened::Nothing { .. } => Pausing::Stop,
        };
        let can_move = pausing == Pausing::Stop;
        let checkpoints = (pausing == Pausing::Checkpoint).then(|| Checkpoints {
            drivers: Drivers::usual(),
            ignored: config.ignore.names.clone(),
            deadlines: None,
            record: Some(Layout::new(&config.state_dir).gpu_moves()),
        });
        let (monitor, from) = match opened {
            Opened::Source(source) => (Some(Monitor::new(source)), String::new()),
            Opened::Nothing { why } => (None, why),
        };
        let asker = Asker {
            monitor,
            from,
            nvlink: None,
            address: config.address.clone(),
            devices: Vec::new(),
            reported: None,
            watch: IdleWatch::default(),
            reported_at: Instant::now(),
            is_heard: Arc::clone(&is_heard),
            incomplete: None,
            schedule: Schedule::new(Cadence::default()),
            grace: UnmanagedGrace::new(config.unmanaged_grace),
            ignore: config.ignore.clone(),
            can_move,
            capacity: facts::capacity(config, pausing == Pausing::Stop),
            probed: Probed::new(config.shepherd_exe.clone(), checkpoints.clone()),
            owners: Arc::clone(&owners),
            meter: Arc::clone(&meter),
            about,
            listing: BTreeSet::new(),
            limits: BTreeMap::new(),
            inputs,
            job_files: JobFiles::new(config.job_files.clone()),
        };
        let has_library = asker.about.shim.is_ok();
        let (questions, asked) = channel();
        std::thread::Builder::new().name("devices".into()).spawn(move || asker.run(&asked))?;
        Ok(Self { questions, owners, meter, is_heard, can_move, has_library, checkpoints })
    }

    /// How the devices of paused tasks become free, if stopping the processes is not enough.
    pub(crate) fn checkpoints(&self) -> Option<Checkpoints> {
        self.checkpoints.clone()
    }

    /// The running tasks, by shepherd.
    pub(crate) fn owners(&self) -> Owners {
        Arc::clone(&self.owners)
    }

    /// Notes that a server has sent an order.
    pub(crate) fn note_order(&self) {
        self.is_heard.store(true, Ordering::Relaxed);
    }

    /// Asks whether a task's devices can be used, and limits its memory on some of them if the
    /// driver can do that; the answer is an [`ThreadInput::Checked`].
    pub(crate) fn check(
        &self,
        task: TaskId,
        devices: Vec<DeviceUuid>,
        limits: Vec<(DeviceUuid, Bytes)>,
    ) {
        // The thread outlives the agent's loop, so this send succeeds.
        let _ = self.questions.send(DeviceQuestion::Check { task, devices, limits });
    }

    /// Asks whether a task's devices have no process of it; see [`ThreadInput::Vacated`].
    pub(crate) fn is_vacated(&self, task: TaskId, generation: Generation) {
        let _ = self.questions.send(DeviceQuestion::Vacated { task, generation });
    }

    /// Lists or changes MIG instances. A launch that is checked later sees the change.
    pub(crate) fn divide(&self, asked: Division) {
        let _ = self.questions.send(DeviceQuestion::Divide(asked));
    }

    /// The task that may use a device.
    pub(crate) fn owner(&self, device: &DeviceUuid) -> Option<TaskId> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |given: &&Assignment| given.limit_on(device).is_some();
        owners.values().find(has).map(|given| given.task)
    }

    /// Notes that processes below this shepherd may use these parts of devices.
    pub(crate) fn owned(&self, shepherd: u32, given: Assignment) {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).insert(shepherd, given);
    }

    /// Changes the size of a task's shares, also of its limits where the driver applies them. The
    /// terms of most orders have the same size as before.
    pub(crate) fn resize(&self, task: TaskId, terms: &Terms) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(given) = owners.values_mut().find(|given| given.task == task) else { return };
        let before = limits_of(&given.seats.slots);
        terms.resize(&mut given.seats.slots);
        let limits = limits_of(&given.seats.slots);
        if limits != before {
            let _ = self.questions.send(DeviceQuestion::Resize { task, limits });
        }
    }

    /// Returns the measured use of the devices of a task that has ended.
    pub(crate) fn measured(&self, task: TaskId) -> Option<GpuUsage> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).take(task)
    }

    /// Notes that this shepherd has ended, and forgets its measurements.
    pub(crate) fn released(&self, shepherd: u32) {
        // Under the meter's lock, so that no sample adds the task again.
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let given = self.owners.lock().unwrap_or_else(PoisonError::into_inner).remove(&shepherd);
        if let Some(Assignment { task, .. }) = given {
            meter.take(task);
        }
    }
}

impl Asker {
    /// Runs until the agent drops its handle.
    fn run(mut self, asked: &Receiver<DeviceQuestion>) {
        if self.probed.ask() {
            facts::allow_pauses(&mut self.capacity);
        }
        self.take_inventory();
        self.report();
        loop {
            let question = if self.monitor.is_some() || !self.is_heard.load(Ordering::Relaxed) {
                asked.recv_timeout(TICK)
            } else {
                asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match question {
                Ok(DeviceQuestion::Check { task, devices, limits }) => {
                    let unusable = self.check(&devices);
                    // The server learns of unhealthy devices before the refusal.
                    self.report();
                    fail::fail_point!("agent-checked");
                    let is_usable = unusable.is_empty();
                    let refused = is_usable.then(|| self.limit(task, &limits).err()).flatten();
                    self.inputs.send(ThreadInput::Checked { task, unusable, refused });
                }
                Ok(DeviceQuestion::Resize { task, limits }) => self.limit_again(task, &limits),
                Ok(DeviceQuestion::Move(moved)) => self.limit_moved(moved),
                Ok(DeviceQuestion::Vacated { task, generation }) => {
                    let user = self.user_of(task);
                    self.inputs.send(ThreadInput::Vacated { task, generation, user });
                }
                Ok(DeviceQuestion::Ended { task, devices, end }) => {
                    self.look_last(task, &devices, end);
                }
                Ok(DeviceQuestion::Divide(asked)) => {
                    let divided = self.divide(asked.change.as_ref());
                    self.report();
                    self.about.server.send(&division::answer(asked.question, divided));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
            self.report();
        }
    }

    fn take_inventory(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        self.incomplete = None;
        match monitor.inventory(INVENTORY) {
            Ok(inventory) => {
                self.from = inventory.driver;
                self.nvlink = inventory.nvlink;
                if !inventory.silent.is_empty() {
                    let silent = inventory.silent.len();
                    self.from = format!("{} ({silent} more do not answer)", self.from);
                    self.incomplete = Some(now());
                }
                let before = std::mem::replace(&mut self.devices, inventory.devices);
                for device in &mut self.devices {
                    device.unmanaged = self.grace.unmanaged(&device.uuid).to_vec();
                    let known = before.iter().find(|it| it.uuid == device.uuid);
                    device.xids = known.map(|it| it.xids.clone()).unwrap_or_default();
                }
            }
            Err(error) => {
                self.from = error.to_string();
                self.incomplete = Some(now());
            }
        }
        self.probe_limits();
        self.look();
    }

    /// Polls the devices that are due.
    fn look(&mut self) {
        let time = now();
        if self.incomplete.is_some_and(|last| time.since(last) >= RETRY || time < last) {
            return self.take_inventory();
        }
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_shared = |uuid: &DeviceUuid| {
            owners.values().any(|given| given.limit_on(uuid).flatten().is_some())
        };
        let grace = &self.grace;
        let watched = |uuid: &DeviceUuid| !grace.unmanaged(uuid).is_empty() || is_shared(uuid);
        let due = self.schedule.take_polls(time, self.devices.iter().map(|it| &it.uuid), &watched);
        let Some(monitor) = self.monitor.as_mut().filter(|_| !due.is_empty()) else { return };
        monitor.simulate(|| loads(&owners));
        let seen = monitor.look(&due, time, LOOK);
        self.take(seen, time);
    }

    /// Polls some devices and returns those that must not be used now.
    fn check(&mut self, devices: &[DeviceUuid]) -> Vec<DeviceUuid> {
        if self.monitor.is_none() {
            return devices.to_vec();
        }
        self.poll(devices, PollRequest { health: true, ..PollRequest::PROCESSES });
        let usable = |uuid: &&DeviceUuid| {
            self.devices.iter().any(|device| {
                device.uuid == **uuid
                    && device.health == DeviceHealth::Healthy
                    && device.unmanaged.is_empty()
            })
        };
        devices.iter().filter(|uuid| !usable(uuid)).cloned().collect()
    }

    /// Polls some devices for these values.
    fn poll(&mut self, devices: &[DeviceUuid], values: PollRequest) {
        let time = now();
        let wanted = devices.iter().map(|uuid| (uuid.clone(), values)).collect();
        let Some(monitor) = &mut self.monitor else { return };
        let seen = monitor.look(&wanted, time, LOOK);
        self.take(seen, time);
    }

    /// A process of a task that is on one of its devices, for people.
    fn user_of(&mut self, task: TaskId) -> Option<String> {
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let wanted = processes_of(&owners, task);
        let monitor = self.monitor.as_mut()?;
        let seen = monitor.look(&wanted, now(), LOOK);
        user_among(&owners, task, &seen)
    }

    fn take(&mut self, seen: BTreeMap<DeviceUuid, Observation>, time: Timestamp) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut samples = self.about.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.is_empty() {
            // The first samples should be there when the server is. The thread waits for the lock.
            // If it has ended, so does the agent.
            let _ = self.about.push.send(());
        }
        for (uuid, observation) in seen {
            let owner = |pid| {
                let shepherd = proc::nearest_ancestor(pid, &|pid| owners.contains_key(&pid))?;
                owners.get(&shepherd)
            };
            let belongs = |pid| match owner(pid) {
                Some(given) if given.limit_on(&uuid).is_some() => Belongs::Here,
                Some(_) => Belongs::Elsewhere,
                None => Belongs::Nobody,
            };
            let share = |pid| {
                let given = owner(pid)?;
                Some((given.task, given.limit_on(&uuid)??))
            };
            samples.insert(uuid.clone(), observation.sample.clone());
            self.about.recent.sampled(&uuid, time, &observation.sample);
            let Some(device) = self.devices.iter_mut().find(|device| device.uuid == uuid) else {
                continue;
            };
            device.health = observation.health.clone();
            for (xid, count) in &observation.sample.detail.errors.xids {
                let known = device.xids.entry(*xid).or_default();
                *known = (*known).max(*count);
            }
            let owner = |pid| owner(pid).map(|given| given.task);
            let uses = uses(&owners, &uuid, &observation, &owner);
            meter.add((&uuid, device.memory), time, &observation.sample, &uses);
            for (task, seen) in activities(&owners, &uuid, &observation, &owner) {
                self.watch.add(task, &uuid, time, seen);
            }
            if let Some(processes) = observation.processes {
                self.listing.insert(uuid.clone());
                let mut facts = self.about.facts.lock();
                let figures = facts.devices.entry(uuid.clone()).or_default();
                note(figures, (device.memory, observation.sample.memory_free), &uses, &processes);
                // Such a task may be given back its memory, but not by its own figures.
                let damaged = &facts.damaged;
                let uses = uses.iter().map(|it| it.task);
                device.damaged = uses.filter(|task| damaged.contains(task)).collect();
                let last = std::mem::take(&mut device.overshoots);
                device.overshoots =
                    accumulate_samples(&last, facts.overshoots(&uuid, &processes, &share));
                drop(facts);
                let sorted = sort_processes(&processes, &belongs, &self.ignore);
                device.unmanaged = self.grace.observe(&uuid, sorted.unmanaged, time).to_vec();
                device.strays = sorted.strays;
                let mut sharing = processes.iter().filter(|it| share(it.pid).is_some()).peekable();
                if sharing.peek().is_some() {
                    device.tells_memory = Some(sharing.all(|process| process.memory.is_some()));
                }
            }
        }
    }

    /// Works out the enforcement of each device.
    fn enforce(&mut self) {
        for device in &mut self.devices {
            let lists = self.listing.contains(&device.uuid);
            let limits = self.limits.get(&device.uuid);
            let about = &self.about;
            device.enforced = enforced(device, &about.filter, limits, &about.shim, lists);
        }
    }

    /// Sends the inventory if it has changed, or if the last one may have been lost.
    fn report(&mut self) {
        self.enforce();
        let owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.job_files.follow(&self.devices, &owners.values());
        let remap = self.probed.remap();
        let moves = self.moves(&remap);
        set_guests(&mut self.devices, &owners, moves == Remap::Yes);
        let seen = &self.about.facts;
        seen.take_used(now()).into_iter().for_each(|task| self.watch.touch(task));
        let idle = idle_tasks(&mut self.watch, &owners, &|task| seen.is_gated(task), now());
        let (stalled, returning) = (seen.stalled(), seen.returning());
        let (engine, images) = self.about.containers.facts();
        let labels = self.about.place.labels(self.nvlink.as_deref());
        let tasks =
            facts::Notable { idle, stalled, returning, remap, moves, engine, images, labels };
        let is_same = |it: &(Vec<Device>, _)| same(&it.0, &self.devices) && it.1 == tasks;
        let is_new = self.reported_at.elapsed() < ANNOUNCE;
        let is_known = is_new || self.is_heard.load(Ordering::Relaxed);
        if self.reported.as_ref().is_some_and(is_same) && is_known {
            return;
        }
        self.reported = Some((self.devices.clone(), tasks.clone()));
        self.reported_at = Instant::now();
        self.inputs.send(ThreadInput::Inventory(Box::new(Report::Inventory {
            stamp: Stamp::default(),
            capacity: facts::capacity_with(&self.capacity, self.devices.len()),
            devices: self.devices.clone(),
            boot_id: proc::boot_id(),
            facts: Box::new(facts::node_facts(self.from.clone(), self.address.clone(), tasks)),
        })));
    }
}
