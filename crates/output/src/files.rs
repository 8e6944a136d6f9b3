//! Answers to a server's questions about output.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpool_model::id::TaskId;
use gpool_model::output::OutputStream;
use gpool_protocol::{FileAnswer, FileQuestion, OutputPart, OutputRequest, OutputStart};

use crate::{Output, file_name, old_jobs, remove_job, run_folder};

/// Bytes in one answer.
const PART_BYTES: usize = 256 * 1024;
/// Outputs that are left open for readers that continue.
const OPEN_MAX: usize = 16;
/// How long outputs are left open, and the thread waits, after the last request.
const IDLE: Duration = Duration::from_secs(10);

/// Takes the answer to one question.
type Reply = Box<dyn FnOnce(FileAnswer) + Send>;

/// The files of all jobs below some state folders.
pub struct JobFiles {
    state_dirs: Arc<[PathBuf]>,
    /// The requests to the thread that reads output, while there is one.
    requests: Arc<Mutex<Option<Sender<QueuedRequest>>>>,
}

struct QueuedRequest {
    request: OutputRequest,
    reply: Reply,
}

impl JobFiles {
    /// The files below the state folders of an agent, its own first.
    #[must_use]
    pub fn new(state_dirs: Arc<[PathBuf]>) -> Self {
        Self { state_dirs, requests: Arc::default() }
    }

    /// Answers a question from another thread: a disk may hang. Requests for output are answered in
    /// turn, and everything else beside them, since it may take minutes.
    ///
    /// # Errors
    /// If a thread can't be started; there is no answer then.
    pub fn answer(&self, question: FileQuestion, reply: Reply) -> io::Result<()> {
        let state_dirs = Arc::clone(&self.state_dirs);
        match question {
            FileQuestion::Output(request) => self.read(QueuedRequest { request, reply }),
            FileQuestion::OutputPaths { task } => {
                spawn(move || reply(output_paths(&state_dirs, task)))
            }
            FileQuestion::OldJobs { before } => {
                spawn(move || reply(FileAnswer::OldJobs(old_jobs(&state_dirs, before))))
            }
            FileQuestion::RemoveJobs { jobs } => spawn(move || {
                let n_removed = jobs.iter().filter(|job| remove_job(&state_dirs, **job)).count();
                reply(FileAnswer::RemovedJobs(n_removed as u64));
            }),
        }
    }

    /// Passes a request to the thread that reads, and starts it if there is none.
    fn read(&self, request: QueuedRequest) -> io::Result<()> {
        let mut requests = lock(&self.requests);
        let request = match &*requests {
            Some(thread) => match thread.send(request) {
                Ok(()) => return Ok(()),
                Err(error) => error.0,
            },
            None => request,
        };
        let (sender, receiver) = channel();
        let reader = OutputReader { state_dirs: Arc::clone(&self.state_dirs), open: Vec::new() };
        let slot = Arc::clone(&self.requests);
        spawn(move || reader.run(&receiver, &slot))?;
        drop(sender.send(request));
        *requests = Some(sender);
        Ok(())
    }
}

/// The thread that reads.
struct OutputReader {
    state_dirs: Arc<[PathBuf]>,
    /// Open outputs, each with its last request and the position after the answer; the last used
    /// one is the last.
    open: Vec<(OutputRequest, u64, Output)>,
}

impl OutputReader {
    fn run(
        mut self,
        requests: &Receiver<QueuedRequest>,
        slot: &Mutex<Option<Sender<QueuedRequest>>>,
    ) {
        loop {
            let request = match requests.recv_timeout(IDLE) {
                Ok(request) => request,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let mut slot = lock(slot);
                    match requests.try_recv() {
                        Ok(request) => request,
                        Err(_) => return *slot = None,
                    }
                }
            };
            let part = self.part(&request.request);
            (request.reply)(FileAnswer::Output(part));
        }
    }

    /// Reads one part. Only a reader that continues gets an output that is open: any other one has
    /// to see files that were replaced.
    fn part(&mut self, request: &OutputRequest) -> OutputPart {
        let continues = |(last, next, _): &(OutputRequest, u64, Output)| {
            let (is_same, start) = (last.is_of_same_output(request), &request.start);
            is_same && *start == OutputStart::Byte(*next)
        };
        let mut output = match self.open.iter().position(continues) {
            Some(ix) => self.open.remove(ix).2,
            None => {
                let OutputRequest { task, streams, owner, .. } = request.clone();
                Output::new(Arc::clone(&self.state_dirs), task, streams, owner)
            }
        };
        let part = read(&mut output, request).unwrap_or_else(|error| match error.kind() {
            io::ErrorKind::InvalidInput => OutputPart::NotRegular,
            _ => OutputPart::Unreadable { why: error.to_string() },
        });
        if let OutputPart::Bytes { offset, bytes } = &part {
            if self.open.len() == OPEN_MAX {
                self.open.remove(0);
            }
            self.open.push((request.clone(), offset + bytes.len() as u64, output));
        }
        part
    }
}

fn read(output: &mut Output, request: &OutputRequest) -> io::Result<OutputPart> {
    let is_at_end = |output: &Output| match request.start {
        OutputStart::Byte(at) => at >= output.length(),
        OutputStart::LastLines(_) => true,
    };
    if is_at_end(output) {
        output.refresh()?;
    }
    if !output.is_written() {
        let has_folder = output.has_folder();
        return Ok(if has_folder { OutputPart::Unwritten } else { OutputPart::Missing });
    }
    if let Some(since) = request.since
        && output.written_at()? < since
    {
        return Ok(OutputPart::TooOld);
    }
    let offset = match request.start {
        OutputStart::Byte(at) => at.min(output.length()),
        OutputStart::LastLines(n_lines) => output.last_lines(n_lines)?,
    };
    let n_bytes = (output.length() - offset).min(PART_BYTES as u64);
    let mut bytes = vec![0; usize::try_from(n_bytes).unwrap_or(PART_BYTES)];
    let n_read = output.read_at(offset, &mut bytes)?;
    bytes.truncate(n_read);
    Ok(OutputPart::Bytes { offset, bytes })
}

fn output_paths(state_dirs: &[PathBuf], task: TaskId) -> FileAnswer {
    let folder = run_folder(task);
    let [stdout, stderr] = OutputStream::BOTH.map(|stream| {
        let name = file_name(stream.as_str(), task);
        let mut paths = state_dirs.iter().map(|dir| dir.join(&folder).join(&name));
        paths.find(|path| path.exists()).map(|path| path.display().to_string())
    });
    FileAnswer::OutputPaths { stdout, stderr }
}

/// Runs work in its own thread.
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name("output".into()).spawn(work).map(drop)
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
