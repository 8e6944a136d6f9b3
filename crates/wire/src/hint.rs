//! Suggestions for the next request.

use gpool_model::prediction::EnoughMemory;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A suggestion for the next request, with its numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hint {
    /// Stable code. New ones may be added.
    pub code: String,
    /// Text of the suggestion.
    pub text: String,
    /// Flags to use instead.
    pub flags: Option<String>,
}

impl Hint {
    /// Suggests a share for a job of this name, from earlier runs of jobs like it.
    #[must_use]
    pub fn of_earlier_runs(name: &str, enough: &EnoughMemory) -> Self {
        let EnoughMemory { n_runs, used, device, gib } = enough;
        Self {
            code: "gpu_memory_unused".to_owned(),
            text: format!(
                "{n_runs} earlier runs of {name} used at most {used} of {device} of GPU memory"
            ),
            flags: Some(format!("--gpu-memory {gib}G")),
        }
    }
}
