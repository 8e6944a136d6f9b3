//! Sends the results of ended tasks to the server, and then removes their working folders. All that
//! this needs is in the folders and their records: the next agent goes on with them.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use gpool_files::walk::{self, Purpose};
use gpool_files::{ObjectId, Patterns, bundle};
use gpool_link::ResultPart;
use gpool_model::id::TaskId;
use gpool_model::unit::Bytes;
use gpool_shepherd::layout::Layout;

use crate::folders::{FolderRecord, Folders};

/// The pause after a failed try. It doubles up to the longest.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Objects in one question.
const AT_ONCE: usize = 1000;

/// Sends results, on a thread of its own.
pub(crate) struct ResultSender {
    tasks: Sender<TaskId>,
    layout: Layout,
}

impl ResultSender {
    /// Starts the thread, and goes on with the folders of an earlier agent. `over` are the tasks
    /// with acknowledged ends.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(folders: &Folders, results_max: Bytes, over: &[TaskId]) -> io::Result<Self> {
        let layout = &folders.layout;
        let (tasks, ended) = channel();
        let over: BTreeSet<&TaskId> = over.iter().collect();
        for record in FolderRecord::all(layout) {
            if over.contains(&record.task) {
                let _ = tasks.send(record.task);
            } else if !layout.claim(record.task).exists() {
                // Its task was not launched; another order makes the folder again.
                folders.discard(record.task);
            }
        }
        let (layout, worker) = (layout.clone(), Worker { folders: folders.clone(), results_max });
        let run = move || worker.run(&ended);
        std::thread::Builder::new().name("results".to_owned()).spawn(run)?;
        Ok(Self { tasks, layout })
    }

    /// Takes a task with an acknowledged end.
    pub fn ended(&self, task: TaskId) {
        if self.layout.work_record(task).exists() {
            // The thread runs as long as the agent.
            let _ = self.tasks.send(task);
        }
    }
}

struct Worker {
    folders: Folders,
    results_max: Bytes,
}

impl Worker {
    fn run(&self, ended: &Receiver<TaskId>) {
        let (mut queue, mut pause) = (VecDeque::new(), PAUSE);
        loop {
            if queue.is_empty() {
                match ended.recv() {
                    Ok(task) => queue.push_back(task),
                    Err(_) => return,
                }
            }
            queue.extend(ended.try_iter());
            let Some(task) = queue.pop_front() else { continue };
            let Err(error) = self.send(task) else {
                pause = PAUSE;
                continue;
            };
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) {
                tracing::error!(%error, %task, "the server takes no results of this task");
                self.folders.discard(task);
                continue;
            }
            tracing::warn!(%error, %task, ?pause, "can't send results; trying again");
            queue.push_back(task);
            match ended.recv_timeout(pause) {
                Ok(task) => queue.push_back(task),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Sends the results of a task, and removes its folder.
    fn send(&self, task: TaskId) -> io::Result<()> {
        let Some(record) = FolderRecord::read(&self.folders.layout, task) else { return Ok(()) };
        let folder = self.folders.layout.work_folder(task);
        if !record.download.is_empty() && folder.is_dir() {
            self.send_files(&record, &folder)?;
            fail::fail_point!("agent-results-sent");
        }
        self.folders.discard(task);
        Ok(())
    }

    fn send_files(&self, record: &FolderRecord, folder: &std::path::Path) -> io::Result<()> {
        let invalid = |why: String| io::Error::new(ErrorKind::InvalidInput, why);
        let patterns = Patterns::new(&record.download).map_err(invalid)?;
        let purpose = Purpose::Results { uid: record.uid, in_container: record.in_container };
        let walked = walk::results(folder, &patterns, purpose, self.results_max.get());
        let walked = walked.map_err(io::Error::other)?;
        let ask = |part: &ResultPart| self.folders.server.results(record.task, record.owner, part);
        let parts: BTreeSet<ObjectId> = walked.manifest.parts().copied().collect();
        let parts: Vec<ObjectId> = parts.into_iter().collect();
        fail::fail_point!("agent-results-walked");
        let mut objects = Vec::new();
        for some in parts.chunks(AT_ONCE) {
            let names = some.iter().map(ToString::to_string).collect();
            for name in ask(&ResultPart::Missing(names))? {
                let id: ObjectId = name.parse().map_err(io::Error::other)?;
                bundle::push(&mut objects, &walked.read(&id)?);
                if objects.len() >= bundle::BUNDLE_FULL {
                    ask(&ResultPart::Objects(std::mem::take(&mut objects)))?;
                    fail::fail_point!("agent-results-some");
                }
            }
        }
        let manifest = walked.manifest.bytes();
        if objects.len() + manifest.len() > bundle::BUNDLE_MAX {
            ask(&ResultPart::Objects(std::mem::take(&mut objects)))?;
        }
        bundle::push(&mut objects, &manifest);
        ask(&ResultPart::Objects(objects))?;
        let manifest = ObjectId::of(&manifest).to_string();
        match ask(&ResultPart::Complete { manifest })?.len() {
            0 => Ok(()),
            n => Err(io::Error::other(format!("the server lost {n} objects meanwhile"))),
        }
    }
}
