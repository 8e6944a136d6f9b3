//! Starts tasks: the shepherd of each, and the first message to it.

use std::io;
use std::sync::Arc;

use gpool_model::Slot;
use gpool_model::agent::{Report, TaskOrder};
use gpool_model::id::DeviceUuid;
use gpool_model::job::{BlobId, EndCause, JobSpec};
use gpool_node::converge::{self, Seats};

use crate::assignments::{Assignment, limits_of};
use crate::config::AgentConfig;
use crate::input::LoanAction;
use crate::runner::Runner;
use gpool_shepherd::message::{DeviceMemory, Element, GpuMemory, Launch, ToShepherd, line};

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

    /// Starts a task once its devices are checked.
    pub(crate) fn launch(&mut self, mut order: Box<TaskOrder>, seats: Seats) {
        if let Some(rule) = &self.parts.config.users {
            match rule.resolve(&order.spec.owner) {
                Ok(owner) if owner == order.spec.owner => {}
                Ok(owner) => order.spec = Arc::new(JobSpec { owner, ..(*order.spec).clone() }),
                Err(why) => {
                    return self.not_started(order.task(), EndCause::LaunchFailed { why });
                }
            }
        }
        let devices = seats.devices();
        order.allocation.slots = seats.slots;
        if devices.is_empty() {
            return self.start(&order, seats.booked);
        }
        let task = order.task();
        let limits = limits_of(&order.allocation.slots);
        self.pending_checks.insert(task, (order, seats.booked));
        self.parts.devices.check(task, devices, limits);
    }

    /// Starts the shepherd of a task.
    pub(crate) fn start(&mut self, order: &TaskOrder, booked: Vec<DeviceUuid>) {
        let task = order.task();
        let fence_at = self.take_fence(task);
        let started = self.first_message(order, &booked, fence_at).and_then(|first| {
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
                let seats = Seats { slots, booked, ..Seats::default() };
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
        order: &TaskOrder,
        booked: &[DeviceUuid],
        fence_at: Option<u64>,
    ) -> Result<Vec<u8>, EndCause> {
        let spec = &order.spec;
        let own = rustix::process::geteuid();
        if !own.is_root() && own.as_raw() != spec.owner.uid {
            let why = format!(
                "this agent runs without root, so it can only run jobs of its own user, not of {} \
                 (uid {})",
                spec.owner.user, spec.owner.uid
            );
            return Err(EndCause::LaunchFailed { why });
        }
        let blob = |what: &str, id| self.blob(what, id);
        let context = blob("environment", &spec.context)?;
        let script = spec.script.as_ref().map(|id| blob("script", id)).transpose()?;
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
            order: order.clone(),
            booked: booked.to_vec(),
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
            element: self.element(order)?,
            context_bytes: context.len(),
            script_bytes: script.as_ref().map(Vec::len),
            fence_at,
        };
        let mut message = line(&launch);
        message.extend(context);
        message.extend(script.unwrap_or_default());
        Ok(message)
    }

    /// Bytes that the server stores for a job. If they are missing, the job is held: nothing of it
    /// has run, and the user can release it when the file is back.
    fn blob(&self, what: &str, id: &BlobId) -> Result<Vec<u8>, EndCause> {
        self.parts.server.blob(id).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => EndCause::PathMissing { path: error.to_string() },
            _ => EndCause::LaunchFailed { why: format!("can't read the job's {what}: {error}") },
        })
    }

    /// The item and parameters of an array element; `None` for other jobs.
    fn element(&self, order: &TaskOrder) -> Result<Option<Element>, EndCause> {
        let (Some(array), Some(index)) = (&order.spec.array, order.task().job.element) else {
            return Ok(None);
        };
        let Some(values) = &array.values else { return Ok(Some(Element::default())) };
        let mut last = self.values.borrow_mut();
        if last.0.as_ref().is_none_or(|(blob, _)| *blob != values.blob) {
            let bytes = self.blob("values", &values.blob)?;
            let read = serde_json::from_slice(&bytes).map_err(|error| EndCause::LaunchFailed {
                why: format!("the array's values can't be read: {error}"),
            })?;
            last.0 = Some((values.blob.clone(), read));
        }
        Ok(last.0.as_ref().map(|(_, values)| Element::of(values, index)))
    }
}
