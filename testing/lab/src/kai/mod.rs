//! Compares the decisions of preset `fair` with those of KAI, the scheduler of Run:ai, in scenarios
//! of whole cycles. The scenarios are JSON files in the format of a public collection. KAI's
//! answers to that collection are recorded, by its own rules as of its public cases.

mod answer;
mod build;
mod case;
mod compare;
mod explanation;
mod file;
mod lines;

pub use answer::Answer;
pub use build::{CaseError, build};
pub use case::Case;
pub use compare::{CaseResult, compare, lines, play};
pub use explanation::{Explanation, told};
pub use file::{File, Scenario};
pub use lines::Missing;

/// Reads a file.
///
/// # Errors
/// It is no such file; the error names the place.
pub fn read(text: &str) -> Result<File, serde_json::Error> {
    serde_json::from_str(text)
}
