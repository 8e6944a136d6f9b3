//! Files with the output of a job.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Output files that gpool stores for the last run of a job, on the server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct LogFiles {
    /// Path of the standard output. `null` if the job writes it to the user's file, or has written
    /// nothing.
    pub stdout: Option<String>,
    /// Path of the standard error. `null` as for `stdout`.
    pub stderr: Option<String>,
}
