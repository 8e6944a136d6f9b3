//! Scenarios of whole cycles, in JSON files: a cluster, an action, and the expected result. The
//! format is that of a public collection; gpool's own scenarios are text lines.

pub mod beside;
mod build;
mod explanation;
mod fair;
pub mod file;
mod play;

pub use beside::{Beside, beside};
pub use build::{CaseError, Ready, build};
pub use explanation::{Explanation, told};
pub use fair::Missing;
pub use file::{File, Scenario};
pub use play::{Verdict, play};

/// Reads a file.
///
/// # Errors
/// What of it is no such file, and where.
pub fn read(text: &str) -> Result<File, serde_json::Error> {
    serde_json::from_str(text)
}
