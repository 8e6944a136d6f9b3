//! Lines to running tasks for others: the agent asks a task's shepherd for one, and hands it over
//! when it comes. What goes over it is not the agent's affair.

use std::collections::BTreeMap;

use gpool_model::attach::{NotOpened, Opening};
use gpool_model::id::TaskId;

use super::runner::Runner;
use super::shepherds::OpenedLine;
use crate::message::ToShepherd;

/// Who is told what came of it. Dropped without a word if the shepherd has gone.
pub type Answer = Box<dyn FnOnce(Result<OpenedLine, NotOpened>) + Send>;

/// Somebody's wish for a line.
pub(super) struct Asked {
    pub task: TaskId,
    pub opening: Opening,
    pub answer: Answer,
}

/// Lines that were asked for and have not come.
#[derive(Default)]
pub(super) struct Lines {
    last: u64,
    awaited: BTreeMap<u64, (TaskId, Answer)>,
}

impl Lines {
    /// Nothing more will come of a task's.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.awaited.retain(|_, (of, _)| *of != task);
    }
}

impl Runner {
    /// Asks a task's shepherd for a line.
    pub(super) fn open(&mut self, asked: Asked) {
        let Asked { task, opening, answer } = asked;
        if !self.shepherds.get_mut(task).is_some_and(|shepherd| shepherd.hears()) {
            return answer(Err(NotOpened::NotRunning));
        }
        self.lines.last += 1;
        let line = self.lines.last;
        self.lines.awaited.insert(line, (task, answer));
        self.shepherds.say_now(task, &ToShepherd::Open { line, opening });
    }

    /// A line has come, from whoever the kernel says. Only the task's own shepherd is believed.
    pub(super) fn opened(
        &mut self,
        pid: u32,
        task: TaskId,
        line: u64,
        opened: Result<OpenedLine, NotOpened>,
    ) {
        let is_its_own = self.shepherds.get_mut(task).is_some_and(|shepherd| shepherd.pid == pid);
        let is_awaited = self.lines.awaited.get(&line).is_some_and(|(of, _)| *of == task);
        if is_its_own
            && is_awaited
            && let Some((_, answer)) = self.lines.awaited.remove(&line)
        {
            answer(opened);
        }
    }
}
