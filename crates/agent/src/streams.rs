//! Streams to running tasks: the agent asks the task's shepherd to open one, and gives it to the
//! link. The agent never reads the bytes that go over it.

use gpool_link::Connection;
use gpool_model::attach::NotOpened;
use gpool_model::id::TaskId;
use gpool_protocol::{Answer, QuestionId, ToServer};

use crate::input::StreamRequest;
use crate::runner::Runner;
use gpool_shepherd::message::ToShepherd;

impl Runner {
    /// Asks a task's shepherd for a stream.
    pub(crate) fn open(&mut self, request: StreamRequest) {
        let StreamRequest { question, task, opening } = request;
        if !self.shepherds.get_mut(task).is_some_and(|shepherd| shepherd.hears()) {
            return self.not_opened(question, NotOpened::NotRunning);
        }
        self.streams.last += 1;
        let line = self.streams.last;
        self.streams.awaited.insert(line, (task, question));
        self.shepherds.say_now(task, &ToShepherd::Open { line, opening });
    }

    /// Refuses the open requests of a task after the end of its shepherd.
    pub(crate) fn refuse_streams(&mut self, task: TaskId) {
        let requests = self.streams.awaited.extract_if(.., |_, (of, _)| *of == task);
        let questions: Vec<QuestionId> = requests.map(|(_, (_, question))| question).collect();
        for question in questions {
            self.not_opened(question, NotOpened::NotRunning);
        }
    }

    fn not_opened(&self, id: QuestionId, why: NotOpened) {
        self.parts.server.send(&ToServer::Answer { id, answer: Answer::NotOpened(why) });
    }

    /// Takes a new stream; `pid` is the peer as the kernel reports it. Only the task's own shepherd
    /// is accepted.
    pub(crate) fn opened(
        &mut self,
        pid: u32,
        task: TaskId,
        line: u64,
        opened: Result<Connection, NotOpened>,
    ) {
        let is_its_own = self.shepherds.get_mut(task).is_some_and(|shepherd| shepherd.pid == pid);
        let is_awaited = self.streams.awaited.get(&line).is_some_and(|(of, _)| *of == task);
        if is_its_own
            && is_awaited
            && let Some((_, question)) = self.streams.awaited.remove(&line)
        {
            match opened {
                Ok(connection) => self.parts.server.connect(question, connection),
                Err(why) => self.not_opened(question, why),
            }
        }
    }
}
