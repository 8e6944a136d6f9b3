//! Scenarios of whole cycles of the quota scheduler, in the format of a file of JSON: a cluster,
//! what is done, and what is expected of it. The format is that of a public collection, so that
//! it can be played; own scenarios are written in lines of text like all others here.

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
