//! Where the output of a job is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The files of gpool's own that the newest run of a job writes, on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LogFiles {
    /// Its output; `null` if it writes that to a file of the user's, or has written nothing.
    pub stdout: Option<String>,
    /// Its errors, likewise.
    pub stderr: Option<String>,
}
