//! Requests for streams to a running job. The server answers `101 Switching Protocols`; then frames
//! ([`crate::frame`]) follow, or plain bytes for port forwarding.

use gpool_model::Refusal;
use gpool_model::attach::{Exec, ForwardTo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::check;
use crate::launch::{Window, checked_window};

/// The protocol in the `Upgrade` header of a request for a stream.
pub const UPGRADE: &str = "gpool-line";

/// A request to attach to the terminal of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachJob {
    /// Size of the caller's terminal window. If omitted, the terminal keeps its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Rank of the task. Default: the first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// A request to run another program in a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecInJob {
    /// Program and arguments.
    pub command: Vec<String>,
    /// If set, runs the program in a terminal of this size instead of with pipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Window>,
    /// Working directory. Default: the job's working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Environment variables in addition to the job's.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub environment: std::collections::BTreeMap<String, String>,
    /// Rank of the task. Default: the first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// A request to connect to a port or socket of a running job. Set either `port` or `socket`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForwardToJob {
    /// TCP port on the node's loopback address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Absolute path of a Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// Rank of the task. Default: the first task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

impl ExecInJob {
    /// Checks each field separately.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field and the error.
    pub fn check(&self) -> Result<Exec, Refusal> {
        check::check_command(&self.command, false)?;
        if let Some(directory) = &self.directory {
            check::checked_directory(directory)?;
        }
        for (name, value) in &self.environment {
            check::check_variable(name.as_bytes(), value.as_bytes())?;
        }
        Ok(Exec {
            command: self.command.clone(),
            pty: self.pty.map(checked_window).transpose()?,
            directory: self.directory.clone(),
            environment: self.environment.clone().into_iter().collect(),
        })
    }
}

impl ForwardToJob {
    /// Checks each field separately.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field and the error.
    pub fn check(&self) -> Result<ForwardTo, Refusal> {
        let invalid = |field: &str, why: &str| {
            Err(Refusal::Invalid { field: field.to_owned(), why: why.to_owned() })
        };
        match (self.port, &self.socket) {
            (Some(0), None) => invalid("port", "a port is 1 to 65535: 8888"),
            (Some(port), None) => Ok(ForwardTo::Port(port)),
            (None, Some(path)) if path.starts_with('/') && path.len() <= 107 => {
                check::check_path("socket", path)?;
                Ok(ForwardTo::Socket(path.clone()))
            }
            (None, Some(_)) => invalid(
                "socket",
                "a socket is an absolute path of at most 107 bytes: /tmp/app.sock",
            ),
            (None, None) | (Some(_), Some(_)) => {
                invalid("port", "give either a port or a socket: {\"port\": 8888}")
            }
        }
    }
}
