//! Jobs that free their GPUs themselves. gpool writes a request into a file of the run's folder and
//! sends the signal that the job chose; the job frees its GPUs and writes the number of the request
//! into a second file. Its processes are not stopped.

use std::io;
use std::path::PathBuf;

use gpool_model::id::Generation;
use gpool_model::kind::Yields;
use gpool_model::unit::Millis;
use gpool_output::file_name;
use gpool_sys::clock;

use super::Shepherd;
use super::files::{read_file, write_file};
use crate::message::FromShepherd;

/// The file with the request: `release N` or `use N`.
const REQUEST: &str = "gpus";
/// The file with the answer: the number of the request.
const ANSWER: &str = "released";
/// Pause between two looks at the answer.
const LOOK: Millis = Millis::new(100);
/// Pause between two looks at the processes on the devices.
const CHECK: Millis = Millis::from_secs(1);

/// A request that the job has not fulfilled yet.
pub(super) struct Yielding {
    generation: Generation,
    /// When the job has failed to answer, on the boot clock.
    until: u64,
    /// When the agent was last asked whether the devices are free, on the boot clock.
    checked: Option<u64>,
    /// Why they are not free.
    why: Option<String>,
}

impl Yielding {
    /// When something is due, on the boot clock.
    pub(super) fn next_check_at(&self) -> u64 {
        clock::boot_ms().saturating_add(LOOK.get()).min(self.until)
    }
}

impl Shepherd {
    /// How the job frees its devices, if it does that itself.
    pub(super) fn yields(&self) -> Option<Yields> {
        self.started?;
        self.launch.order.spec.yields()
    }

    /// Asks the job to free its devices; the same request is not repeated.
    pub(super) fn ask_release(&mut self, generation: Generation, yields: Yields) {
        if self.halt.yielding.is_some() {
            return;
        }
        if let Err(error) = self.write_request("release", generation) {
            return self.not_paused(format!("the request can't be written: {error}"));
        }
        let within = yields.within.unwrap_or(self.launch.order.spec.grace);
        let until = clock::boot_ms().saturating_add(within.get());
        self.halt.yielding = Some(Yielding { generation, until, checked: None, why: None });
        self.signal_yields(yields);
        self.set_timer();
    }

    /// Lets the job use its devices again.
    pub(super) fn let_use(&mut self, generation: Generation, yields: Yields) {
        self.halt.yielding = None;
        // If the disk is full, the signal still arrives, and the job finds its old request.
        let _ = self.write_request("use", generation);
        self.signal_yields(yields);
    }

    fn signal_yields(&self, yields: Yields) {
        if let (Some(tree), Some(signal)) = (&self.tree, yields.signal) {
            tree.signal_group(signal);
        }
    }

    /// Looks for the answer, and gives up after the time for it.
    pub(super) fn look_for_answer(&mut self, time: u64) {
        let Some(generation) = self.halt.yielding.as_ref().map(|it| it.generation) else { return };
        let has_answered = self.answer() == Some(generation.0);
        let Some(yielding) = &mut self.halt.yielding else { return };
        if time >= yielding.until {
            let why = match (has_answered, yielding.why.take()) {
                (false, _) => "it did not release its GPUs in time".to_owned(),
                (true, why) => why.unwrap_or_else(|| "no agent could check its GPUs".to_owned()),
            };
            self.halt.yielding = None;
            if let Some(yields) = self.yields() {
                self.let_use(generation, yields);
            }
            return self.not_paused(why);
        }
        let is_due = yielding.checked.is_none_or(|at| time >= at.saturating_add(CHECK.get()));
        if has_answered && is_due {
            yielding.checked = Some(time);
            self.link.say(&FromShepherd::Released { generation });
        }
    }

    /// Handles the result of a look at the devices: `user` is a process that is still on one.
    pub(super) fn vacated(&mut self, generation: Generation, user: Option<String>) {
        let Some(yielding) = &mut self.halt.yielding else { return };
        if yielding.generation != generation {
            return;
        }
        yielding.why = user;
        if yielding.why.is_none() {
            self.halt.yielding = None;
            self.paused();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.layout.attempt(self.task()).join(file_name(name, self.task()))
    }

    fn write_request(&self, word: &str, generation: Generation) -> io::Result<()> {
        write_file(&self.path(REQUEST), self.owner, &format!("{word} {generation}\n"))
    }

    /// The number in the answer. The file belongs to the job, so it may be anything.
    fn answer(&self) -> Option<u64> {
        read_file(&self.path(ANSWER), 32)?.trim().parse().ok()
    }
}
