//! The link between a server and one of its agents. The messages are those of [`gpool_protocol`];
//! this crate gets them across, with streams, blobs and secrets beside them.
//!
//! [`local`] joins an agent to the server of its own process. Messages travel as frames there too,
//! so an agent behaves the same wherever its server is. [`remote`] is the agent's end of a link to
//! a server on another machine.

#![forbid(unsafe_code)]

pub mod local;
pub mod remote;

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Weak;

use gpool_model::id::{JobId, TaskId};
use gpool_model::job::BlobId;
use gpool_protocol::{QuestionId, ToAgent, ToServer};

/// A further connection of an agent, for a stream to a task.
#[derive(Debug)]
pub struct Connection {
    /// The bytes of both directions.
    pub stream: UnixStream,
    /// Bytes from the task that have arrived already.
    pub early: Vec<u8>,
}

/// The server's end of a link.
pub trait AgentLink: Send + Sync {
    /// Sends a message, in the order of the calls. It is lost if the agent does not listen.
    fn send(&self, message: &ToAgent);
}

/// The server, as a link calls it. Called from threads of the link or of the agent,
/// so it does not block.
pub trait ServerInbox: Send + Sync {
    /// Takes a message, in the order of sending.
    fn message(&self, message: ToServer);

    /// Takes the connection that a question asked for.
    fn connection(&self, question: QuestionId, connection: Connection);

    /// Returns the content of a blob. It may read a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] with the path of the file, or the file can't be read.
    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>>;

    /// Returns the value of a secret. It may read a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] with the reason if no job can have it now, or the file can't be
    /// read.
    fn secret(&self, query: &SecretQuery) -> io::Result<Vec<u8>>;

    /// Takes a part of the results of a task of a user, by ID on the server, and returns names of
    /// objects. It may write files.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the part can't be right, [`io::ErrorKind::NotFound`] if
    /// there is no such task, or the file can't be written.
    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>>;
}

/// A secret of the user of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretQuery {
    /// The job. Over a network, the server finds the user by it.
    pub job: JobId,
    /// The user, as the server's order names it.
    pub uid: u32,
    /// The name of the secret.
    pub name: String,
}

/// A part of the results of a task. The whole is complete with the last part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPart {
    /// Names of objects; the answer has those that the server lacks.
    Missing(Vec<String>),
    /// Objects; the answer has their names.
    Objects(Vec<u8>),
    /// All objects are there: the name of the list of files. The answer has those that are missing
    /// after all.
    Complete {
        /// Its name.
        manifest: String,
    },
}

/// The agent, as a link calls it. Called from threads of the link or of the server, so it does not
/// block.
pub trait AgentInbox: Send + Sync {
    /// Takes a message, in the order of sending.
    fn message(&self, message: ToAgent);
}

/// The agent's end of a link.
pub trait ServerLink: Send + Sync {
    /// Begins to pass on the server's messages, for as long as the inbox exists. Earlier ones are
    /// lost.
    fn listen(&self, inbox: Weak<dyn AgentInbox>);

    /// Sends a message, in the order of the calls. It is lost if the server has gone.
    fn send(&self, message: &ToServer);

    /// Opens a connection for the question that asked for it.
    fn connect(&self, question: QuestionId, connection: Connection);

    /// Calls `reply` with the content of a blob of the server, once the server answers: at once, or
    /// from another thread. Does not wait for the network.
    fn blob(&self, id: &BlobId, reply: BlobReply);

    /// Calls `reply` with the value of a secret, as [`ServerLink::blob`].
    fn secret(&self, query: &SecretQuery, reply: BlobReply);

    /// Sends a part of the results of a task of a user, by ID on the server; returns the answer.
    /// Waits for the server, so call it on a thread of its own.
    ///
    /// # Errors
    /// As for [`ServerInbox::results`], or the server can't be reached: another try may help.
    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>>;
}

/// Takes the content of a blob or secret, or the server's answer why there is none:
/// [`io::ErrorKind::NotFound`] with the path of the file or the reason, or another error.
pub type BlobReply = Box<dyn FnOnce(io::Result<Vec<u8>>) + Send>;
