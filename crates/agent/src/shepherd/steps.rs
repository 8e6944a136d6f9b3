//! Reads the ends of steps, which each `srun` in the task writes into a file of the run's folder.
//!
//! A step needs neither server nor agent, so its end is recorded even while both are away.

use gpool_model::job::StepEnd;

use super::Shepherd;
use super::files::read_file;
use crate::layout::file_name;

/// The file, one line of JSON for each step. `compat/src/slurm/step/ended.rs` writes it.
const FILE: &str = "ended-steps";
/// Bytes of the file that are read: about 300 steps.
const BYTES_MAX: u64 = 64 << 10;
/// Bytes of a name that are kept.
const NAME_MAX: usize = 64;

impl Shepherd {
    /// The ended steps of the task; later ones are left out if there are too many.
    pub(super) fn ended_steps(&self) -> Vec<StepEnd> {
        let path = self.layout.attempt(self.task()).join(file_name(FILE, self.task()));
        let text = read_file(&path, BYTES_MAX).unwrap_or_default();
        // The last line may be cut.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).map(shortened).collect()
    }
}

fn shortened(mut step: StepEnd) -> StepEnd {
    step.name.truncate(step.name.floor_char_boundary(NAME_MAX));
    step
}
