//! Takes over claimed tasks: from an earlier agent, and from a shepherd that was killed.

use std::io;
use std::time::Duration;

use gpool_model::agent::{TaskEnd, TaskIs, TaskReport};
use gpool_model::id::{Generation, TaskId};
use gpool_model::job::EndCause;
use gpool_node::converge;

use crate::adopt::{Adopted, Leftovers, adopt, end_leftovers, put_groups_away};
use crate::assignments::Assignment;
use crate::input::ThreadInput;
use crate::runner::Runner;
use crate::task_state::{TaskLocation, not_started};
use gpool_shepherd::layout::claimed_task;
use gpool_shepherd::record::{ClaimFile, ClaimRecord};

impl Runner {
    /// Takes over all claimed tasks of an earlier agent.
    pub(crate) fn adopt_all(&mut self) -> io::Result<()> {
        let mut tasks = Vec::new();
        for entry in std::fs::read_dir(self.parts.layout.tasks())? {
            let entry = entry?;
            let name = entry.file_name();
            match name.to_str().and_then(claimed_task) {
                Some(task) => tasks.push(task),
                // An unfinished claim. The process that writes it finds it gone and launches
                // nothing.
                None if name.as_encoded_bytes().starts_with(b".new-") => {
                    std::fs::remove_file(entry.path())?;
                }
                None => {}
            }
        }
        tasks.sort_unstable();
        fail::fail_point!("agent-adopt-before");
        for task in tasks {
            self.adopt(task, Generation::default());
            fail::fail_point!("agent-adopt-each");
        }
        self.parts.shares.adopted();
        self.parts.shares.sweep();
        put_groups_away(&self.parts.layout, &self.parts.site);
        self.sweep_secrets();
        Ok(())
    }

    /// Finds out the state of a task that was claimed.
    pub(crate) fn adopt(&mut self, task: TaskId, generation: Generation) {
        let mut adopted = adopt(&self.parts.layout, task);
        if matches!(&adopted, Ok(Adopted::Alive { record, .. }) if record.is_off()) {
            // A restore that began before this is in the claim; a later one waits for its grant.
            self.parts.shares.withhold(task);
            adopted = adopt(&self.parts.layout, task);
        }
        let mut place = TaskLocation::default();
        if let Ok(Adopted::Alive { record, .. } | Adopted::Leaving { record }) = &adopted {
            // A living shepherd may still read orders of an earlier agent.
            let is_settled = matches!(adopted, Ok(Adopted::Leaving { .. }));
            place = TaskLocation::of(record, is_settled);
        }
        let (generation, is) = match adopted {
            Ok(Adopted::Alive { record, shepherd }) => {
                let claimant = &record.claimant;
                let watched = self.shepherds.adopt(task, claimant.shepherd, shepherd);
                let seats = claimant.seats();
                let started_at = record.started.map(|(_, at)| at);
                self.parts.shares.adopt(task, &seats, started_at, record.is_off());
                let idle_after = claimant.idle_after;
                let given = Assignment { task, seats, idle_after, is_stuck: false };
                self.parts.devices.owned(claimant.shepherd, given);
                // Without the descriptor the agent misses the shepherd's end, but still gets its
                // messages.
                drop(watched);
                (record.generation(), goes_on(&record))
            }
            Ok(Adopted::Leaving { record }) => {
                let found = (record.generation(), goes_on(&record));
                self.await_leftovers(record);
                found
            }
            Ok(Adopted::Over { record: Some(record), end })
                if was_left(&end)
                    && record.claimant.container_gid.is_some()
                    && self.removed_containers.insert(task) =>
            {
                let found = (record.generation(), goes_on(&record));
                self.remove_container(record);
                found
            }
            Ok(Adopted::Over { record, end }) => {
                let known = record.as_ref().map_or(generation, ClaimRecord::generation);
                let is_lost = matches!(end.cause, Some(EndCause::ShepherdEnded { .. }));
                let report = TaskReport { task, generation: known, is: TaskIs::Ended(*end) };
                match record.filter(|it| is_lost && !it.claimant.slots.is_empty()) {
                    // Processes that still use its devices are reported before the devices become
                    // free.
                    Some(record) => {
                        let devices = record.claimant.seats().devices();
                        self.parts.devices.check(task, devices, Vec::new());
                        self.lost.insert(task, report);
                        (known, goes_on(&record))
                    }
                    None => return self.found(report, place),
                }
            }
            Ok(Adopted::Unclaimed) => {
                let why = "its shepherd ended before it started the program".to_owned();
                return self.prevent(task, generation, not_started(EndCause::LaunchFailed { why }));
            }
            Err(error) => {
                let path = self.parts.layout.claim(task);
                let why = format!("can't read its record {}: {error}", path.display());
                (generation, TaskIs::Ended(not_started(EndCause::LaunchFailed { why })))
            }
        };
        self.found(TaskReport { task, generation, is }, place);
    }

    /// Reads the claim of a task again: its shepherd has connected, and has no orders of earlier
    /// agents left to read. With `is_off` it says whether the task's memory is off its devices.
    pub(crate) fn settled(&mut self, task: TaskId, is_off: Option<bool>) {
        let claim = ClaimFile::open(&self.parts.layout, task).and_then(|found| match found {
            Some(found) => found.read(),
            None => Ok(None),
        });
        let Ok(Some(record)) = claim else { return };
        if record.ended.is_some() {
            return;
        }
        let place = TaskLocation::of(&record, true);
        self.note_place(task, &place.seats.devices(), &place.seats.booked);
        self.parts.shares.connected(task, is_off.unwrap_or_else(|| record.is_off()));
        let (generation, is) = (record.generation(), goes_on(&record));
        self.found(TaskReport { task, generation, is }, place);
    }

    pub(crate) fn found(&mut self, report: TaskReport, place: TaskLocation) {
        let TaskLocation { seats, is_detached, is_settled } = place;
        self.pending_inputs.push_back(converge::Input::Found {
            report,
            seats,
            is_detached,
            is_settled,
        });
    }

    /// Removes the container that a dead shepherd left, with its processes if a daemon of the
    /// engine has them. Then the task is checked again.
    fn remove_container(&self, record: ClaimRecord) {
        let (engine, sender) = (self.parts.containers.engine.clone(), self.parts.sender.clone());
        let state_dir = self.parts.config.state_dir.clone();
        let remove = move || {
            let claimant = record.claimant;
            let task = claimant.task;
            let gid = claimant.container_gid.unwrap_or(claimant.uid);
            if let Ok(engine) = engine.wait() {
                engine.remove(&state_dir, task, (claimant.uid, gid));
            }
            sender.send(ThreadInput::LeftoversEnded(task));
        };
        // If no thread can be started, the next agent checks the task again.
        let _ = std::thread::Builder::new().name("container".into()).spawn(remove);
    }

    /// Ends the processes that a dead shepherd left, on a separate thread, since the kernel may
    /// take long. Then the task is checked again.
    fn await_leftovers(&self, record: ClaimRecord) {
        /// Pause between two attempts to end the processes.
        const PAUSE: Duration = Duration::from_millis(500);
        let (layout, sender) = (self.parts.layout.clone(), self.parts.sender.clone());
        let wait = move || {
            while matches!(end_leftovers(&layout, &record), Ok(Leftovers::Some)) {
                std::thread::sleep(PAUSE);
            }
            sender.send(ThreadInput::LeftoversEnded(record.claimant.task));
        };
        // If no thread can be started, the next agent checks the task again.
        let _ = std::thread::Builder::new().name("leftovers".into()).spawn(wait);
    }
}

/// Whether no shepherd saw the end of a task, and removed its container.
fn was_left(end: &TaskEnd) -> bool {
    matches!(end.cause, Some(EndCause::ShepherdEnded { .. } | EndCause::Rebooted))
}

/// The state of a task that has not ended, by its claim.
fn goes_on(record: &ClaimRecord) -> TaskIs {
    match record.started {
        Some((pid, started_at)) if record.is_paused() => TaskIs::Paused { pid, started_at },
        Some((pid, started_at)) => TaskIs::Running { pid, started_at },
        None => TaskIs::Launching,
    }
}
