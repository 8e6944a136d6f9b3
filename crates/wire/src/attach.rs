//! Lines to a job that runs, as the API asks for them. The answer is `101 Switching Protocols`;
//! what follows is frames ([`crate::frame`]), or plain bytes where a connection is forwarded.

use gpool_model::Refusal;
use gpool_model::attach::{Exec, ForwardTo};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::check;
use crate::launch::{Window, checked_window};

/// The protocol that a request for a line names in its header `Upgrade`.
pub const UPGRADE: &str = "gpool-line";

/// Attaches to a job's terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachJob {
    /// The window in which it is seen; absent: it keeps its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// At which task, by its rank. Absent: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// Runs a further program beside a job's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecInJob {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Runs it on a terminal of that size, and not on pipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pty: Option<Window>,
    /// Where it runs. Absent: where the job does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Variables beside the job's.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub environment: std::collections::BTreeMap<String, String>,
    /// At which task, by its rank. Absent: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// Connects to what a job listens on: one of `port` and `socket`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForwardToJob {
    /// A TCP port of the node's loopback address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// A unix socket, by its absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    /// At which task, by its rank. Absent: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

impl ExecInJob {
    /// Checks each field by itself.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field and what is wrong.
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
    /// Checks each field by itself.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] with the field and what is wrong.
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
            (None, Some(_)) => {
                invalid("socket", "it is an absolute path of at most 107 bytes: /tmp/app.sock")
            }
            (None, None) | (Some(_), Some(_)) => {
                invalid("port", "say one of port and socket: {\"port\": 8888}")
            }
        }
    }
}
