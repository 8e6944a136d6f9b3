//! The parts of a request, and the request of each.

use std::sync::Arc;

use crate::gang::Gang;
use crate::gpu::GpuRequest;
use crate::job_part::JobPart;
use crate::plan::{Fit, PartFit};
use crate::request::job::JobRequest;

impl JobRequest {
    /// The most parts of a job.
    pub const PARTS_MAX: usize = 16;

    /// Gives a request these parts. Its own shape becomes that of the first one.
    pub fn set_parts(&mut self, parts: Vec<JobPart>) {
        if let Some(first) = parts.first() {
            self.take_shape(first);
            self.gpus_written = Arc::from(JobPart::gpus_words_of(&parts));
        }
        self.parts = parts.into();
    }

    /// Whether it has parts of different shape.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// GPUs of a task, and the tasks: of each part, or of all tasks if they are alike.
    pub fn shapes(&self) -> impl Iterator<Item = (&GpuRequest, Gang)> {
        let whole = (!self.has_parts()).then_some((&self.gpus, self.gang));
        whole.into_iter().chain(self.parts.iter().map(|part| (&part.gpus, part.gang)))
    }

    /// Whether any of its tasks has GPUs.
    #[must_use]
    pub fn has_gpus(&self) -> bool {
        self.shapes().any(|(gpus, _)| !gpus.is_none())
    }

    /// The number of tasks that start together, of all parts.
    #[must_use]
    pub fn n_tasks(&self) -> u32 {
        self.shapes().map(|(_, gang)| gang.n_tasks()).fold(0, u32::saturating_add)
    }

    /// Returns the position of the part that a task belongs to, and its rank in that part; `None`
    /// for a job without parts.
    #[must_use]
    pub fn part_of(&self, rank: u32) -> Option<(usize, u32)> {
        let mut first = 0;
        for (at, part) in self.parts.iter().enumerate() {
            let n_tasks = part.gang.n_tasks();
            if rank - first < n_tasks {
                return Some((at, rank - first));
            }
            first += n_tasks;
        }
        None
    }

    /// Returns a request with the shape of one part and without parts.
    #[must_use]
    pub fn of_part(&self, at: usize) -> Self {
        let mut request = Self { parts: Vec::new().into(), ..self.clone() };
        request.take_shape(&self.parts[at]);
        request
    }

    /// Calls a function with the shape of each part; with the request itself if it has no parts.
    pub fn each_part(&self, mut call: impl FnMut(&Self)) {
        match self.has_parts() {
            true => (0..self.parts.len()).for_each(|at| call(&self.of_part(at))),
            false => call(self),
        }
    }

    /// The requirements of each part on nodes, by the function for those of a request.
    pub fn part_fits(&self, fit: impl Fn(&Self) -> Fit) -> Vec<PartFit> {
        let part = |(at, part): (usize, &JobPart)| PartFit {
            name: Arc::clone(&part.name),
            fit: fit(&self.of_part(at)),
        };
        self.parts.iter().enumerate().map(part).collect()
    }

    fn take_shape(&mut self, part: &JobPart) {
        self.gpus.clone_from(&part.gpus);
        self.gpus_written = Arc::from(part.gpus.to_string());
        (self.cpus, self.memory, self.gang) = (part.cpus, part.memory, part.gang);
    }
}
