//! Meanings of Xids, the error reports of the GPU driver, and the Xids of a job.

use gpool_model::xid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The meanings of the Xids that users meet.
///
/// Source: NVIDIA, "Analyzing Xid Errors with the Xid Catalog".
const MEANINGS: [(u64, &str); 21] = [
    (13, "exception in a kernel or in graphics"),
    (31, "access to an invalid address of GPU memory"),
    (32, "invalid commands to the GPU"),
    (43, "the GPU stopped the program's work"),
    (45, "the program was ended after an earlier error"),
    (48, "memory error that ECC could not correct"),
    (62, "halt of the GPU's controller"),
    (63, "faulty memory is being replaced"),
    (64, "faulty memory could not be replaced"),
    (68, "exception in the video decoder"),
    (69, "error in the graphics engine"),
    (74, "NVLink error"),
    (79, "the GPU has fallen off the bus"),
    (92, "many memory errors that ECC corrected"),
    (94, "memory error, contained in one program"),
    (95, "memory error, not contained"),
    (109, "timeout of a switch between programs"),
    (119, "the GPU's system processor did not answer"),
    (120, "error in the GPU's system processor"),
    (140, "memory error that ECC could not correct"),
    (154, "the GPU needs a reset"),
];

/// A kind of Xid that a GPU reported while a job had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobXid {
    /// Name of the node.
    pub node: String,
    /// Index of the GPU on its node.
    pub index: u32,
    /// Number of the Xid.
    pub xid: u64,
    /// How often the GPU reported it.
    pub count: u64,
    /// Whether programs usually cause it. Other Xids are faults of the GPU, its driver or links.
    pub of_program: bool,
    /// Meaning of the Xid. Absent if it is rare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

impl JobXid {
    /// The Xid for people: `Xid 31 on lab1:0: access to an invalid address of
    /// GPU memory (usually caused by a program)`.
    #[must_use]
    pub fn text(&self) -> String {
        let times = if self.count > 1 { format!(", {} times", self.count) } else { String::new() };
        let meaning = match (&self.meaning, self.of_program) {
            (Some(meaning), true) => format!("{meaning} (usually caused by a program)"),
            (Some(meaning), false) => format!("{meaning} (a fault of the GPU or its driver)"),
            (None, _) => "see NVIDIA's Xid catalog".to_owned(),
        };
        format!("Xid {} on {}:{}{times}: {meaning}", self.xid, self.node, self.index)
    }
}

impl From<&xid::JobXid> for JobXid {
    fn from(seen: &xid::JobXid) -> Self {
        let meaning = MEANINGS.iter().find(|(number, _)| *number == seen.xid);
        Self {
            node: seen.node.to_string(),
            index: seen.device,
            xid: seen.xid,
            count: seen.count,
            of_program: xid::OF_PROGRAMS.contains(&seen.xid),
            meaning: meaning.map(|(_, meaning)| (*meaning).to_owned()),
        }
    }
}
