//! Streams to running tasks: the agent asks the task's shepherd to open one and hands it over. The
//! agent never reads the bytes that go over it.

use std::collections::BTreeMap;

use gpool_model::attach::{NotOpened, Opening};
use gpool_model::id::TaskId;

use super::runner::Runner;
use super::shepherds::OpenedStream;
use crate::message::ToShepherd;

/// Called with the opened stream or the reason why there is none. Dropped without a call if the
/// shepherd has ended.
pub type Answer = Box<dyn FnOnce(Result<OpenedStream, NotOpened>) + Send>;

/// A request for a stream.
pub(super) struct Asked {
    pub task: TaskId,
    pub opening: Opening,
    pub answer: Answer,
}

/// Streams that were requested and are not open yet.
#[derive(Default)]
pub(super) struct Streams {
    last: u64,
    awaited: BTreeMap<u64, (TaskId, Answer)>,
}

impl Streams {
    /// Drops the open requests of a task.
    pub(super) fn forget(&mut self, task: TaskId) {
        self.awaited.retain(|_, (of, _)| *of != task);
    }
}

impl Runner {
    /// Asks a task's shepherd for a stream.
    pub(super) fn open(&mut self, asked: Asked) {
        let Asked { task, opening, answer } = asked;
        if !self.shepherds.get_mut(task).is_some_and(|shepherd| shepherd.hears()) {
            return answer(Err(NotOpened::NotRunning));
        }
        self.streams.last += 1;
        let line = self.streams.last;
        self.streams.awaited.insert(line, (task, answer));
        self.shepherds.say_now(task, &ToShepherd::Open { line, opening });
    }

    /// Takes a new stream; `pid` is the peer as the kernel reports it. Only the task's own shepherd
    /// is accepted.
    pub(super) fn opened(
        &mut self,
        pid: u32,
        task: TaskId,
        line: u64,
        opened: Result<OpenedStream, NotOpened>,
    ) {
        let is_its_own = self.shepherds.get_mut(task).is_some_and(|shepherd| shepherd.pid == pid);
        let is_awaited = self.streams.awaited.get(&line).is_some_and(|(of, _)| *of == task);
        if is_its_own
            && is_awaited
            && let Some((_, answer)) = self.streams.awaited.remove(&line)
        {
            answer(opened);
        }
    }
}
