//! Reads the ends of steps, which each `srun` in the task writes into a file of the run's folder.
//!
//! A step needs neither server nor agent, so its end is recorded even while both are away.

use gpool_model::job::StepEnd;
use gpool_model::unit::Timestamp;
use gpool_output::file_name;

use super::files::read_file;
use super::{Shepherd, now};

/// Bytes of the file that are read: about 300 steps.
const BYTES_MAX: u64 = 64 << 10;
/// Bytes of a name that are kept.
const NAME_MAX: usize = 64;

impl Shepherd {
    /// The ended steps of the task; later ones are left out if there are too many.
    pub(super) fn ended_steps(&self) -> Vec<StepEnd> {
        let path = self.layout.attempt(self.task()).join(file_name(StepEnd::FILE, self.task()));
        let text = read_file(&path, BYTES_MAX).unwrap_or_default();
        // The last line may be cut.
        let steps = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        steps.map(|step| bounded(step, now())).collect()
    }
}

/// The step without values that no step of this task can have: the job can write the file too.
fn bounded(mut step: StepEnd, now: Timestamp) -> StepEnd {
    step.name.truncate(step.name.floor_char_boundary(NAME_MAX));
    step.ended_at = step.ended_at.min(now);
    step.started_at = step.started_at.min(step.ended_at);
    step.exit_code = step.exit_code.clamp(0, 255);
    step
}
