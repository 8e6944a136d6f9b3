//! The connections of an agent to its server over the network.

use std::io::{self, ErrorKind};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use gpool_client::{Client, Error, JobStream};
use gpool_link::remote::Dial;
use gpool_link::{Connection, ResultPart};
use gpool_model::id::{JobId, TaskId};
use gpool_model::job::BlobId;
use gpool_protocol::QuestionId;
use gpool_wire::Problem;

/// Opens connections as the agent of a node.
pub struct ServerDial {
    /// Replaced when the certificate is renewed.
    pub client: Arc<Mutex<Client>>,
    /// Told when the server refuses this machine for good.
    pub refusals: Mutex<Sender<Problem>>,
}

impl ServerDial {
    fn client(&self) -> Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another try may help against most errors, but not if this machine is no node any more.
    fn failed(&self, error: Error) -> io::Error {
        match error {
            Error::Problem(problem) if problem.status == 401 => {
                let what = problem.detail.clone();
                // The program may be ending already.
                drop(self.refusals.lock().unwrap_or_else(PoisonError::into_inner).send(problem));
                io::Error::new(ErrorKind::PermissionDenied, what)
            }
            error => io::Error::other(error),
        }
    }

    /// Why the server sends no file.
    fn no_file(&self, error: Error) -> io::Error {
        match error {
            Error::Problem(problem) if problem.status == 404 => {
                io::Error::new(ErrorKind::NotFound, problem.detail)
            }
            Error::Problem(problem) if problem.status == 403 => {
                io::Error::new(ErrorKind::PermissionDenied, problem.detail)
            }
            error => self.failed(error),
        }
    }

    fn open(
        &self,
        open: impl FnOnce(&Client) -> Result<JobStream, Error>,
    ) -> io::Result<Connection> {
        let opened = open(&self.client()).map_err(|error| self.failed(error))?;
        Ok(Connection { stream: opened.stream, early: opened.early })
    }
}

impl Dial for ServerDial {
    fn messages(&self) -> io::Result<Connection> {
        self.open(Client::agent_messages)
    }

    fn stream(&self, question: QuestionId) -> io::Result<Connection> {
        self.open(|client| client.agent_stream(question.0))
    }

    fn answer(&self, frame: &[u8]) -> io::Result<()> {
        self.client().agent_answer(frame).map_err(|error| self.failed(error))
    }

    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>> {
        self.client().agent_blob(&id.0).map_err(|error| self.no_file(error))
    }

    fn secret(&self, job: JobId, name: &str) -> io::Result<Vec<u8>> {
        let value = self.client().agent_secret(&job.to_string(), name);
        value.map_err(|error| self.no_file(error))
    }

    fn results(&self, task: TaskId, owner: u32, part: &ResultPart) -> io::Result<Vec<String>> {
        let (name, body) = match part {
            ResultPart::Missing(names) => ("missing", names.join("\n").into_bytes()),
            ResultPart::Objects(bundle) => ("objects", bundle.clone()),
            ResultPart::Complete { manifest } => ("complete", manifest.clone().into_bytes()),
        };
        let sent = self.client().agent_results((&task.to_string(), owner), name, &body);
        sent.map_err(|error| match error {
            Error::Problem(problem) if problem.status == 404 => {
                io::Error::new(ErrorKind::NotFound, problem.detail)
            }
            Error::Problem(problem) if problem.status == 400 => {
                io::Error::new(ErrorKind::InvalidData, problem.detail)
            }
            error => self.failed(error),
        })
    }
}
