//! The agent's end of a link over streams, such as TLS connections to a server on another machine.
//!
//! A thread keeps a connection for messages, and makes it again when it breaks. Messages that are
//! sent meanwhile are lost: the protocol is level-triggered, and each connection begins with the
//! agent's hello, and the server then asks for reports. Streams, blobs and long answers take
//! connections of their own, so that none of them delays an order.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use gpool_model::id::{JobId, TaskId};
use gpool_model::job::BlobId;
use gpool_protocol::{Decoder, FrameError, QuestionId, ToAgent, ToServer, encode};

use crate::{AgentInbox, BlobReply, Connection, ResultPart, SecretQuery, ServerLink};

/// The most frames that wait to be sent. If there are more, the connection is closed: late reports
/// are useless.
const QUEUE_MAX: usize = 64;
/// A connection is closed if the server says nothing for this time. It answers each beat.
const SILENCE: Duration = Duration::from_secs(10);
/// The pause before the next connection. It doubles up to the longest, until a connection has
/// lasted for a while.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(10);
const LASTED: Duration = Duration::from_secs(30);
/// An answer with more bytes takes a connection of its own.
const LONG: usize = 16 * 1024;
/// How often a long answer is sent until the server takes it.
const ANSWER_TRIES: usize = 3;
/// Bytes that are read at once.
const PIECE: usize = 16 * 1024;

/// Opens connections to the server.
pub trait Dial: Send + Sync {
    /// Opens a connection for messages.
    ///
    /// # Errors
    /// The server can't be reached, or refuses the agent.
    fn messages(&self) -> io::Result<Connection>;

    /// Opens a connection for the stream that a question asked for.
    ///
    /// # Errors
    /// As for [`Dial::messages`].
    fn stream(&self, question: QuestionId) -> io::Result<Connection>;

    /// Sends the frame of a long answer.
    ///
    /// # Errors
    /// As for [`Dial::messages`].
    fn answer(&self, frame: &[u8]) -> io::Result<()>;

    /// Returns the content of a blob.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] with the path of the file, [`io::ErrorKind::PermissionDenied`]
    /// if the server refuses it for good, or the server can't be reached.
    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>>;

    /// Returns the value of a secret of the user of a job.
    ///
    /// # Errors
    /// As for [`Dial::blob`], with the reason if there is none.
    fn secret(&self, job: JobId, name: &str) -> io::Result<Vec<u8>>;

    /// Sends a part of the results of a task.
    ///
    /// # Errors
    /// As for [`ServerLink::results`].
    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>>;
}

/// Returns the agent's end of a new link. It connects once the agent listens.
#[must_use]
pub fn link(dial: Box<dyn Dial>) -> Arc<dyn ServerLink> {
    Arc::new(RemoteLink(Arc::new(LinkState { dial, present: Mutex::default() })))
}

struct RemoteLink(Arc<LinkState>);

struct LinkState {
    dial: Box<dyn Dial>,
    present: Mutex<Present>,
}

#[derive(Default)]
struct Present {
    /// The frame of the agent's hello, the first of each connection.
    hello: Option<Vec<u8>>,
    connection: Option<OpenConnection>,
}

struct OpenConnection {
    frames: SyncSender<Vec<u8>>,
    stream: UnixStream,
}

impl ServerLink for RemoteLink {
    fn listen(&self, inbox: Weak<dyn AgentInbox>) {
        let state = self.0.clone();
        let keep = move || state.keep_connected(&inbox);
        // Without a thread the agent is on its own, as without a network.
        if let Err(error) = thread::Builder::new().name("link".to_owned()).spawn(keep) {
            tracing::error!(%error, "can't start a thread for the connection to the server");
        }
    }

    fn send(&self, message: &ToServer) {
        let frame = match encode(message) {
            Ok(frame) => frame,
            Err(error) => return tracing::error!(%error, "lost a message to the server"),
        };
        if matches!(message, ToServer::Answer { .. }) && frame.len() > LONG {
            return self.0.clone().answer_apart(frame);
        }
        let mut present = self.0.lock();
        if matches!(message, ToServer::Hello(_)) {
            present.hello = Some(frame.clone());
        }
        let Some(connection) = &present.connection else { return };
        if let Err(TrySendError::Full(_)) = connection.frames.try_send(frame) {
            tracing::warn!("the server takes no messages; closing the connection");
            close(&connection.stream);
            present.connection = None;
        }
    }

    fn connect(&self, question: QuestionId, connection: Connection) {
        let state = self.0.clone();
        let join = move || {
            if let Err(error) = state.join(question, connection) {
                tracing::warn!(%error, "a stream could not be connected to the server");
            }
        };
        // Without a thread, the question times out.
        drop(thread::Builder::new().name("stream".to_owned()).spawn(join));
    }

    fn blob(&self, id: &BlobId, reply: BlobReply) {
        let id = id.clone();
        self.fetch_apart(reply, move |dial| dial.blob(&id));
    }

    fn secret(&self, query: &SecretQuery, reply: BlobReply) {
        let (job, name) = (query.job, query.name.clone());
        self.fetch_apart(reply, move |dial| dial.secret(job, &name));
    }

    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>> {
        self.0.dial.results(task, owner, part)
    }
}

impl RemoteLink {
    /// Fetches a file in a thread of its own.
    fn fetch_apart(
        &self,
        reply: BlobReply,
        ask: impl Fn(&dyn Dial) -> io::Result<Vec<u8>> + Send + 'static,
    ) {
        let state = Arc::downgrade(&self.0);
        let (answers, pending) = std::sync::mpsc::channel::<BlobReply>();
        let fetch = move || {
            if let (Some(content), Ok(reply)) = (fetch(&state, ask), pending.recv()) {
                reply(content);
            }
        };
        match thread::Builder::new().name("blob".to_owned()).spawn(fetch) {
            Ok(_) => drop(answers.send(reply)),
            Err(error) => reply(Err(error)),
        }
    }
}

/// Fetches a file, again and again until the server answers; `None` if the agent ends before.
fn fetch(
    state: &Weak<LinkState>,
    ask: impl Fn(&dyn Dial) -> io::Result<Vec<u8>>,
) -> Option<io::Result<Vec<u8>>> {
    let mut pause = PAUSE;
    loop {
        let error = match ask(&*state.upgrade()?.dial) {
            Ok(content) => return Some(Ok(content)),
            Err(error) => error,
        };
        if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) {
            return Some(Err(error));
        }
        tracing::warn!(%error, ?pause, "can't fetch a file of a job; trying again");
        thread::sleep(pause);
        pause = PAUSE_MAX.min(pause * 2);
    }
}

impl Drop for RemoteLink {
    fn drop(&mut self) {
        if let Some(connection) = self.0.lock().connection.take() {
            close(&connection.stream);
        }
    }
}

impl LinkState {
    fn lock(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a long answer, which would delay what comes after it.
    fn answer_apart(self: Arc<Self>, frame: Vec<u8>) {
        let send = move || {
            for _ in 0..ANSWER_TRIES {
                match self.dial.answer(&frame) {
                    Ok(()) => return,
                    // An idle connection may be dead; the next try makes another.
                    Err(error) => {
                        tracing::warn!(%error, "an answer could not be sent to the server");
                    }
                }
            }
        };
        // Without a thread, the question times out.
        drop(thread::Builder::new().name("answer".to_owned()).spawn(send));
    }

    /// Connects again and again, for as long as the agent exists.
    fn keep_connected(&self, inbox: &Weak<dyn AgentInbox>) {
        let mut pause = PAUSE;
        while inbox.strong_count() > 0 {
            let began = Instant::now();
            let ended = self.dial.messages().and_then(|stream| self.carry(stream, inbox));
            if inbox.strong_count() == 0 {
                return;
            }
            let why = match ended {
                Ok(()) => "it closed the connection".to_owned(),
                Err(error) => error.to_string(),
            };
            if began.elapsed() > LASTED {
                pause = PAUSE;
            }
            // Agents that lost the same server come back spread over the pause.
            let wait = pause.mul_f64(0.5 + 0.5 * fastrand::f64());
            tracing::warn!(why, ?wait, "no connection to the server; trying again");
            thread::sleep(wait);
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Carries messages until the connection ends.
    fn carry(&self, connection: Connection, inbox: &Weak<dyn AgentInbox>) -> io::Result<()> {
        let Connection { mut stream, early } = connection;
        stream.set_read_timeout(Some(SILENCE))?;
        let (frames, waiting) = sync_channel::<Vec<u8>>(QUEUE_MAX);
        let mut out = stream.try_clone()?;
        let send = move || {
            for frame in waiting {
                if out.write_all(&frame).is_err() {
                    break;
                }
            }
            close(&out);
        };
        thread::Builder::new().name("link-out".to_owned()).spawn(send)?;
        tracing::info!("connected to the server");
        let mut present = self.lock();
        if let Some(hello) = &present.hello {
            // The queue is empty.
            drop(frames.try_send(hello.clone()));
        }
        present.connection = Some(OpenConnection { frames, stream: stream.try_clone()? });
        drop(present);
        let ended = receive(&mut stream, &early, inbox);
        close(&stream);
        self.lock().connection = None;
        ended
    }

    /// Joins a stream to a task with a connection to the server, until both have ended.
    fn join(&self, question: QuestionId, connection: Connection) -> io::Result<()> {
        join(connection, self.dial.stream(question)?)
    }
}

/// Carries bytes between two connections, until both have ended.
///
/// # Errors
/// One of them has ended already, or there is no thread.
pub fn join(one: Connection, other: Connection) -> io::Result<()> {
    let (one_end, other_end) = (one.stream, other.stream);
    let (from, to) = (other_end.try_clone()?, one_end.try_clone()?);
    let back = move || carry_one_way(from, &other.early, to);
    let back = thread::Builder::new().name("stream-in".to_owned()).spawn(back)?;
    carry_one_way(one_end, &one.early, other_end);
    drop(back.join());
    Ok(())
}

/// Carries bytes from one connection to another until the first has ended. If the second takes no
/// more, the rest is dropped: with unread bytes, the kernel would reset the connection, and lose
/// the bytes on their way back.
fn carry_one_way(mut from: UnixStream, early: &[u8], mut to: UnixStream) {
    let carried = to.write_all(early).and_then(|()| io::copy(&mut from, &mut to));
    drop(to.shutdown(Shutdown::Write));
    if carried.is_err() {
        drop(io::copy(&mut from, &mut io::sink()));
    }
}

/// Passes messages on until the connection or the agent ends.
fn receive(stream: &mut UnixStream, early: &[u8], inbox: &Weak<dyn AgentInbox>) -> io::Result<()> {
    let (mut decoder, mut piece) = (Decoder::default(), vec![0; PIECE]);
    decoder.push(early);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(n_read) => decoder.push(&piece[..n_read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(io::Error::new(ErrorKind::TimedOut, "it said nothing for 10 seconds"));
            }
            Err(error) => return Err(error),
        }
        loop {
            match decoder.next_message::<ToAgent>() {
                Ok(None) => break,
                Ok(Some(message)) => match inbox.upgrade() {
                    Some(agent) => agent.message(message),
                    None => return Ok(()),
                },
                // A newer server may know more messages.
                Err(error @ FrameError::NotAMessage(_)) => {
                    tracing::error!(%error, "lost a message of the server");
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

/// Closes both directions; threads that wait for them end.
fn close(stream: &UnixStream) {
    // It may be closed already.
    drop(stream.shutdown(Shutdown::Both));
}
