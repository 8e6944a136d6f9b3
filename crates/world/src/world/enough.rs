//! The GPU memory that suffices for a job, from past runs of jobs like it.

use gpool_model::prediction::EnoughMemory;
use gpool_model::{GpuAmount, JobSpec, Likeness};

use crate::world::World;

impl World {
    /// The GPU memory that suffices for a job, if it requests whole devices and past runs show that
    /// it needs less.
    #[must_use]
    pub fn enough_memory(&self, spec: &JobSpec) -> Option<EnoughMemory> {
        let is_whole =
            matches!(spec.gpus.amount, GpuAmount::Whole(n) if n > 0) && !spec.has_parts();
        self.past.runs(&Likeness::of(spec)).filter(|_| is_whole)?.enough_memory()
    }
}
