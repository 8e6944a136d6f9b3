//! Stopping all processes of a task where they are, and letting them go on.

use gpool_model::id::Generation;

use super::Shepherd;
use crate::message::FromShepherd;

/// Whether the processes of a task are stopped, and by which order.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Halt {
    /// Of the last order that was heard.
    generation: Generation,
    is_paused: bool,
}

impl Shepherd {
    /// Stops all processes where they are, and says so once that is on file; or that it can't be.
    /// Said again it says again what is so.
    pub(super) fn pause(&mut self, generation: Generation) {
        if generation < self.halt.generation || self.ending.is_some() || self.exit.is_some() {
            return;
        }
        self.halt.generation = generation;
        if !self.halt.is_paused {
            let tree = self.tree.as_ref().filter(|_| self.started.is_some());
            if !tree.is_some_and(super::tree::Tree::freeze) {
                self.tree.iter().for_each(super::tree::Tree::thaw);
                return self.link.say(&FromShepherd::NotPaused { generation });
            }
            self.halt.is_paused = true;
            self.allowed.pause();
            self.set_timer();
        }
        // Without room for it a later agent asks again, and hears it then.
        let _ = self.claim.halted(generation, true);
        self.link.say(&FromShepherd::Paused { generation });
    }

    /// Lets all processes go on.
    pub(super) fn resume(&mut self, generation: Generation) {
        if generation < self.halt.generation {
            return;
        }
        self.halt.generation = generation;
        if self.halt.is_paused {
            // On file first: nobody is to take for stopped what goes on.
            let _ = self.claim.halted(generation, false);
            self.thaw();
        }
        self.link.say(&FromShepherd::Resumed { generation });
    }

    /// Lets all processes go on, whoever is told.
    pub(super) fn thaw(&mut self) {
        if std::mem::take(&mut self.halt.is_paused) {
            self.tree.iter().for_each(super::tree::Tree::thaw);
            self.allowed.resume();
            self.set_timer();
        }
    }

    /// Tells a later agent how it is.
    pub(super) fn say_halt(&mut self) {
        if self.halt.is_paused {
            self.link.say(&FromShepherd::Paused { generation: self.halt.generation });
        }
    }
}
