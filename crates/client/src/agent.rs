//! The requests of an agent to its server over the network.

use gpool_wire::files::StoredObjects;
use gpool_wire::join::{AGENT_ROUTES, AGENT_UPGRADE, CertificateRequest, IssuedCertificate};

use crate::call::{Call, Client, escaped};
use crate::error::Error;
use crate::stream::JobStream;

impl Client {
    /// Joins with a token, or asks for the next certificate of an agent that has joined.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_certificate(
        &self,
        request: &CertificateRequest,
    ) -> Result<IssuedCertificate, Error> {
        self.ask(&Call::post(&format!("{AGENT_ROUTES}/certificate")).json(request))
    }

    /// Checks that the server knows this machine as a node.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_check(&self) -> Result<(), Error> {
        self.tell(&Call::get(&format!("{AGENT_ROUTES}/node")))
    }

    /// Opens a connection for messages.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_messages(&self) -> Result<JobStream, Error> {
        self.upgrade("GET", &format!("{AGENT_ROUTES}/messages"), AGENT_UPGRADE, &[])
    }

    /// Opens a connection for the stream that a question asked for, by its number.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_stream(&self, question: u64) -> Result<JobStream, Error> {
        let path = format!("{AGENT_ROUTES}/streams/{question}");
        self.upgrade("GET", &path, AGENT_UPGRADE, &[])
    }

    /// Opens a connection to the API for a user of a job on the node, by its name or ID there.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_api(&self, user: &str) -> Result<JobStream, Error> {
        let path = format!("{AGENT_ROUTES}/api?user={}", escaped(user));
        self.upgrade("GET", &path, AGENT_UPGRADE, &[])
    }

    /// Sends a long answer to a question of the server, as a frame.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_answer(&self, frame: &[u8]) -> Result<(), Error> {
        self.tell(&Call::post(&format!("{AGENT_ROUTES}/answers")).bytes(frame))
    }

    /// Sends a part of the results of a task, as `missing`, `objects` or `complete`; returns names
    /// of objects.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_results(
        &self,
        (task, owner): (&str, u32),
        part: &str,
        body: &[u8],
    ) -> Result<Vec<String>, Error> {
        let task = escaped(task);
        let path = format!("{AGENT_ROUTES}/results/{part}?task={task}&owner={owner}");
        let answer: StoredObjects = self.ask(&Call::post(&path).bytes(body))?;
        Ok(answer.stored)
    }

    /// Returns the content of a blob.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_blob(&self, id: &str) -> Result<Vec<u8>, Error> {
        self.bytes(&Call::get(&format!("{AGENT_ROUTES}/blobs/{}", escaped(id))))
    }

    /// Returns the value of a secret of the user of a job.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn agent_secret(&self, job: &str, name: &str) -> Result<Vec<u8>, Error> {
        let path = format!("{AGENT_ROUTES}/secrets/{}/{}", escaped(job), escaped(name));
        self.bytes(&Call::get(&path))
    }
}
