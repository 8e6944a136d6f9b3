//! Whether the driver pauses tasks, and restores their memory on other GPUs.

use std::path::PathBuf;

use gpool_checkpoint::{Capability, probe};
use gpool_model::node::Remap;

use gpool_shepherd::message::Checkpoints;

/// The driver's checkpoints.
pub(crate) struct Probed {
    /// The program of the processes that call the driver.
    program: PathBuf,
    checkpoints: Option<Checkpoints>,
    /// The driver's answer.
    capability: Option<Capability>,
}

impl Probed {
    /// Nothing is known before [`Self::ask`].
    pub(crate) fn new(program: PathBuf, checkpoints: Option<Checkpoints>) -> Self {
        Self { program, checkpoints, capability: None }
    }

    /// Asks the driver. Returns whether it can pause tasks.
    pub(crate) fn ask(&mut self) -> bool {
        let probed = self.checkpoints.as_ref().map(|it| probe(&self.program, &it.drivers));
        self.capability = probed;
        self.capability.as_ref().is_some_and(|it| it.refusal.is_none())
    }

    /// Whether paused tasks can resume on other devices. A restore can show that they can't.
    pub(crate) fn remap(&self) -> Remap {
        let Some((checkpoints, capability)) =
            self.checkpoints.as_ref().zip(self.capability.as_ref())
        else {
            return Remap::default();
        };
        match capability.refusal_of_moves(checkpoints.record.as_deref()) {
            Some(why) => Remap::No { why: why.into() },
            None => Remap::Yes,
        }
    }
}
