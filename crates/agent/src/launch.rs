//! Starts tasks: the shepherd of each, and the first message to it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gpool_model::agent::{Report, TaskOrder};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::job::{BlobId, EndCause, JobSpec};
use gpool_model::{Lack, Slot};
use gpool_node::converge::{self, Seats};

use crate::assignments::{Assignment, limits_of};
use crate::config::AgentConfig;
use crate::engine::device_words;
use crate::input::{LoanAction, ThreadInput};
use crate::login::Login;
use crate::pending_launch::PendingLaunch;
use crate::runner::Runner;
use crate::task_state::{TaskLocation, not_started};
use gpool_shepherd::container::TaskEngine;
use gpool_shepherd::layout::claim_name;
use gpool_shepherd::message::{DeviceMemory, GpuMemory, Launch, ToShepherd, line};

impl Runner {
    /// Acts on a task with a loan of device memory.
    pub(crate) fn lend(&mut self, lent: LoanAction) {
        match lent {
            LoanAction::Tell(task, devices) => {
                self.shepherds.say_now(task, &ToShepherd::Memory { devices });
            }
            LoanAction::Move { task, from, to, beneficiary } => {
                let input = converge::Input::Relocate { task, from, to, beneficiary };
                self.pending_inputs.push_back(input);
            }
            LoanAction::Leave(task) => self.leave(task),
            LoanAction::Parked(task) => {
                self.pending_inputs.push_back(converge::Input::Parked { task })
            }
            LoanAction::Attach(task, devices) => self.say_attach(task, devices),
            LoanAction::Pause(task) => self.shepherds.say(task, &ToShepherd::Vacate),
            LoanAction::Return(task) => self.shepherds.say(task, &ToShepherd::Return),
            LoanAction::Stop(task, grace) => {
                self.shepherds.say(task, &ToShepherd::Reclaim { grace });
                self.shepherds.wake(task);
            }
            LoanAction::Report(report) => self.tell(Report::Loan(report)),
        }
    }

    /// Notes the end of a task that could not be started.
    pub(crate) fn not_started(&mut self, task: TaskId, cause: EndCause) {
        self.parts.folders.discard(task);
        self.parts.shares.end(task);
        self.parts.site.existing(&claim_name(task)).remove();
        self.pending_inputs.push_back(converge::Input::Ended { task, end: not_started(cause) });
    }

    /// Starts a task once its devices are checked.
    pub(crate) fn launch(&mut self, mut order: Box<TaskOrder>, seats: Seats) {
        let server_uid = order.spec.owner.uid;
        if let Some(rule) = &self.parts.config.users {
            match rule.resolve(&order.spec.owner) {
                Ok(owner) if owner == order.spec.owner => {}
                Ok(owner) => order.spec = Arc::new(JobSpec { owner, ..(*order.spec).clone() }),
                Err(why) => {
                    let lack = EndCause::NodeLacks(Lack::Account(why));
                    return self.not_started(order.task(), lack);
                }
            }
        }
        let task = order.task();
        order.allocation.slots = seats.slots;
        let values = order.spec.array.as_ref().and_then(|array| array.values.as_ref());
        let last =
            self.values.as_ref().filter(|(blob, _)| values.is_some_and(|it| it.blob == *blob));
        let values = last.map(|(_, values)| Arc::clone(values));
        let pending = PendingLaunch {
            order,
            booked: seats.booked,
            files: BTreeMap::new(),
            secrets: BTreeMap::new(),
            values,
            server_uid,
            has_folder: false,
        };
        let missing: Vec<BlobId> = pending.missing().cloned().collect();
        let missing_secrets: Vec<String> = pending.missing_secrets().map(str::to_owned).collect();
        self.pending_launches.insert(task, pending);
        for id in missing {
            let (inputs, blob) = (self.parts.sender.clone(), id.clone());
            let reply = move |content| inputs.send(ThreadInput::Blob { task, id: blob, content });
            self.parts.server.blob(&id, Box::new(reply));
        }
        self.ask_for_secrets(task, server_uid, missing_secrets);
    }

    /// Takes a file of a task; after the last, the devices are checked.
    pub(crate) fn take_blob(&mut self, task: TaskId, id: BlobId, content: io::Result<Vec<u8>>) {
        let Some(pending) = self.pending_launches.get_mut(&task) else { return };
        if pending.is_complete() {
            return;
        }
        match content.map_err(|error| no_file(&error)).and_then(|bytes| pending.take(id, bytes)) {
            Ok(Some(values)) => self.values = Some(values),
            Ok(None) => {}
            Err(cause) => {
                self.pending_launches.remove(&task);
                return self.not_started(task, cause);
            }
        }
        self.check_image(task);
    }

    /// Goes on with a task once all its files are here: its image is checked.
    pub(crate) fn check_image(&mut self, task: TaskId) {
        let Some(pending) = self.pending_launches.get(&task).filter(|it| it.is_complete()) else {
            return;
        };
        let spec = &pending.order.spec;
        let Some(request) = &spec.container else { return self.make_folder(task) };
        let why = match self.parts.containers.engine.get() {
            Some(Ok(engine)) => {
                let job = (task, spec.owner.clone());
                let sender = &self.parts.sender;
                let login = pending.login().map(|(name, value)| Login::new(name, value));
                let images = &self.parts.containers.images;
                return images.check(engine, job, (request, login), sender);
            }
            Some(Err(why)) => why.clone(),
            None => "it still looks for an engine that runs containers".to_owned(),
        };
        self.take_image(task, Some(Lack::Engine(why)));
    }

    /// Goes on with a task if the node has its image; else the task does not start here.
    pub(crate) fn take_image(&mut self, task: TaskId, lack: Option<Lack>) {
        if self.pending_launches.get(&task).is_none_or(|it| !it.is_complete()) {
            // The answer is for an earlier order, which was stopped.
            return;
        }
        match lack {
            None => self.make_folder(task),
            Some(lack) => {
                self.pending_launches.remove(&task);
                self.not_started(task, EndCause::NodeLacks(lack));
            }
        }
    }

    /// Makes the working folder of a task if it has one of the agent, then checks its devices.
    fn make_folder(&mut self, task: TaskId) {
        let Some(pending) = self.pending_launches.get(&task) else { return };
        if pending.is_ready() {
            return self.check_devices(task);
        }
        self.parts.folders.make(&pending.order, pending.server_uid);
    }

    /// Takes the working folder of a task, or why there is none.
    pub(crate) fn take_folder(&mut self, task: TaskId, built: Result<PathBuf, EndCause>) {
        let folders = &self.parts.folders;
        let pending = self.pending_launches.get_mut(&task);
        let Some(pending) = pending.filter(|it| it.is_complete() && !it.is_ready()) else {
            // It is for an earlier order, which was stopped.
            return built.into_iter().for_each(|path| folders.remove(&path));
        };
        let published = built.and_then(|built| {
            let published = folders.publish(&pending.order, pending.server_uid, &built);
            published.inspect_err(|_| folders.remove(&built))
        });
        match published.map(|path| path.into_os_string().into_string()) {
            Ok(Ok(path)) => {
                pending.has_folder = true;
                Arc::make_mut(&mut pending.order.spec).directory = path;
                self.check_devices(task);
            }
            Ok(Err(path)) => {
                let why = format!("the path {} is not UTF-8", path.display());
                self.pending_launches.remove(&task);
                self.not_started(task, EndCause::LaunchFailed { why });
            }
            Err(cause) => {
                self.pending_launches.remove(&task);
                self.not_started(task, cause);
            }
        }
    }

    fn check_devices(&mut self, task: TaskId) {
        let Some(pending) = self.pending_launches.get(&task) else { return };
        let slots = &pending.order.allocation.slots;
        let devices: Vec<DeviceUuid> = slots.iter().map(|slot| slot.device.clone()).collect();
        if !devices.is_empty() {
            return self.parts.devices.check(task, devices, limits_of(slots));
        }
        if let Some(pending) = self.pending_launches.remove(&task) {
            self.start(&pending);
        }
    }

    /// Takes the check of the devices of a task, which may be lost, or is to be launched.
    pub(crate) fn take_check(
        &mut self,
        task: TaskId,
        unusable: Vec<DeviceUuid>,
        refused: Option<String>,
    ) {
        if let Some(report) = self.lost.remove(&task) {
            self.found(report, TaskLocation::default());
        }
        if self.pending_launches.get(&task).is_some_and(|it| !it.is_ready()) {
            // The check was for an earlier order, which was stopped.
            return;
        }
        match (self.pending_launches.remove(&task), refused) {
            (Some(_), Some(why)) => self.not_started(task, EndCause::LaunchFailed { why }),
            (Some(pending), None) if unusable.is_empty() => self.start(&pending),
            (Some(_), None) => {
                self.parts.folders.discard(task);
                let devices = unusable;
                self.pending_inputs.push_back(converge::Input::Refused { task, devices });
            }
            // It was stopped meanwhile; the kernel keeps a group with processes.
            (None, _) => self.parts.site.existing(&claim_name(task)).remove(),
        }
    }

    /// Starts the shepherd of a task.
    pub(crate) fn start(&mut self, pending: &PendingLaunch) {
        let PendingLaunch { order, booked, .. } = pending;
        let task = order.task();
        let fence_at = self.take_fence(task);
        let started = self.first_message(pending, fence_at).and_then(|first| {
            let exe = &self.parts.config.shepherd_exe;
            self.shepherds
                .start(exe, task, first)
                .map_err(|error| format!("can't start a shepherd ({}): {error}", exe.display()))
                .map_err(|why| EndCause::LaunchFailed { why })
        });
        match started {
            Ok(pid) => {
                fail::fail_point!("agent-launch-after");
                let slots = order.allocation.slots.clone();
                let seats = Seats { slots, booked: booked.clone(), ..Seats::default() };
                let idle_after = order.spec.shown_idle_after();
                self.parts
                    .devices
                    .owned(pid, Assignment { task, seats, idle_after, is_stuck: false });
            }
            Err(cause) => self.not_started(task, cause),
        }
    }

    /// The first message to a shepherd.
    pub(crate) fn first_message(
        &self,
        pending: &PendingLaunch,
        fence_at: Option<u64>,
    ) -> Result<Vec<u8>, EndCause> {
        let PendingLaunch { order, booked, .. } = pending;
        let spec = &order.spec;
        let own = rustix::process::geteuid();
        if !own.is_root() && own.as_raw() != spec.owner.uid {
            let why = format!(
                "this agent runs without root, so it can only run jobs of its own user, not of {} \
                 (uid {})",
                spec.owner.user, spec.owner.uid
            );
            return Err(EndCause::NodeLacks(Lack::Account(why)));
        }
        let context = pending.file(&spec.context);
        let script = spec.script.as_ref().map(|id| pending.file(id));
        let config = &self.parts.config;
        let of_device = |slot: &Slot| {
            let memory = *self.memory.get(&slot.device)?;
            let (request, limit) = (slot.part.memory_of(memory), slot.part.limit_of(memory));
            Some(DeviceMemory { device: slot.device.clone(), request, limit })
        };
        let memory: Vec<DeviceMemory> =
            order.allocation.slots.iter().filter_map(of_device).collect();
        let least = memory.iter().map(|it| GpuMemory { request: it.request, limit: it.limit });
        let cap = self.parts.shares.give(order, &|uuid| self.memory.get(uuid).copied());
        let launch = Launch {
            order: (**order).clone(),
            booked: booked.clone(),
            state_dir: config.state_dir.clone(),
            site: self.parts.site.clone(),
            devices: self.parts.isolation.filter(&order.allocation.slots),
            pids_max: Some(config.pids_max.unwrap_or(AgentConfig::PIDS_MAX)),
            output_limit: config.output_limit,
            stop_on_cut: config.stop_on_cut,
            api: config.api_socket.clone(),
            trace: config.trace_context.map(|of| of(order.task().job, spec)),
            gpu_memory: least.min_by_key(|it| (it.request, it.limit)),
            memory,
            cap: cap.map_err(|why| EndCause::LaunchFailed { why })?,
            pausing: self.parts.devices.checkpoints(),
            engine: self.task_engine(order),
            element: pending.element(),
            context_bytes: context.len(),
            script_bytes: script.map(<[u8]>::len),
            secrets: pending.secret_files().map(|(name, it)| (name.clone(), it.len())).collect(),
            fence_at,
        };
        let mut message = line(&launch);
        message.extend(context);
        message.extend(script.unwrap_or_default());
        pending.secret_files().for_each(|(_, value)| message.extend(value));
        Ok(message)
    }

    /// The engine for the container of a task, if it has one.
    fn task_engine(&self, order: &TaskOrder) -> Option<TaskEngine> {
        let engine = self.parts.containers.engine.get()?.as_ref().ok()?;
        order.spec.container.as_ref()?;
        let slots = &order.allocation.slots;
        let uuids: Vec<&str> = slots.iter().map(|slot| slot.device.as_str()).collect();
        let minors = self.parts.isolation.minors(slots);
        Some(engine.for_task(device_words(engine.about.kind, &uuids, &minors)))
    }
}

/// Why a task can't start without a file of the server. If the file is missing, the job is held:
/// nothing of it has run, and the user can release it when the file is back.
fn no_file(error: &io::Error) -> EndCause {
    match error.kind() {
        io::ErrorKind::NotFound => EndCause::NodeLacks(Lack::Stored(error.to_string())),
        _ => {
            let why = format!("can't read its environment or script: {error}");
            EndCause::LaunchFailed { why }
        }
    }
}
