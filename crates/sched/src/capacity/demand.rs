//! The part of a node that a job needs.

use std::borrow::Cow;

use gpool_model::plan::Fit;
use gpool_model::reservation::Window;
use gpool_model::{Attempt, GpuRequest, JobId, Policy, Shape, Share, Timestamp};

use super::host_resources::HostResources;

/// The part of one node that a job needs: devices, host resources and node filters, from its
/// [`Fit`], and the rules that choose its devices.
///
/// The unit is the need of all tasks of one node together. A job with tasks that may share nodes
/// may need several units of one node.
#[derive(Clone, Copy)]
pub(crate) struct Demand<'a> {
    pub shape: &'a Shape,
    pub policy: &'a Policy,
    /// Chance, for policies that choose devices at random.
    pub seed: u64,
    /// The model of the request, by position, that all devices must be of; `None` is any.
    pub model: Option<usize>,
    /// Units on the node.
    pub times: u32,
}

impl<'a> Demand<'a> {
    /// Returns the demand of one unit on devices of any model of the request.
    pub fn new(shape: &'a Shape, policy: &'a Policy, seed: u64) -> Self {
        Self { shape, policy, seed, model: None, times: 1 }
    }

    /// Returns the demand of that many units on one node.
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Returns the demand for devices of one model of the request.
    pub fn of_model(self, model: Option<usize>) -> Self {
        Self { model, ..self }
    }

    pub fn fit(&self) -> &'a Fit {
        &self.shape.fit
    }

    /// All devices of the node together, as a request.
    pub fn gpus(&self) -> Cow<'a, GpuRequest> {
        self.fit().gpus_on_node(self.times)
    }

    /// The part of each device; `None` is the whole device.
    pub fn share(&self) -> Option<Share> {
        self.fit().gpus.share()
    }

    /// Number of devices on the node.
    pub fn n_devices(&self) -> usize {
        let times = usize::try_from(self.times).unwrap_or(usize::MAX);
        n_devices_on_node(self.fit()).saturating_mul(times)
    }

    /// Number of devices that must be free as a whole for one unit: none for shares.
    pub fn n_free_least(&self) -> usize {
        if self.share().is_some() { 0 } else { n_devices_on_node(self.fit()) }
    }

    /// CPU cores, memory and task slots on the node.
    pub fn host(&self) -> HostResources {
        HostResources::needed(self.fit()).times(self.times)
    }

    /// Units of the whole job.
    pub fn n_units(&self) -> u32 {
        self.fit().gang.nodes
    }

    /// Whether the job gets exactly one node.
    pub fn is_of_one_node(&self) -> bool {
        self.n_units() == 1
    }

    /// Positions of the models that all tasks may be of: a job of several nodes gets one model.
    pub fn models(&self) -> Vec<Option<usize>> {
        match self.is_of_one_node() {
            true => vec![None],
            false => (0..self.fit().gpus.models.len().max(1)).map(Some).collect(),
        }
    }

    /// The time of its run if it starts at `at`. Without a time limit it counts as forever.
    pub fn run(&self, at: Timestamp) -> Window {
        Window::lasting(at, self.shape.takes)
    }
}

/// Number of devices that all tasks of a job on one node need together, for one unit.
pub(crate) fn n_devices_on_node(fit: &Fit) -> usize {
    usize::try_from(fit.n_devices_on_node()).unwrap_or(usize::MAX)
}

/// Returns the seed of one attempt of one job: the same whenever it is asked for.
pub(crate) fn seed(job: JobId, attempt: Attempt) -> u64 {
    let element = job.element.map_or(0, |element| u64::from(element) + 1);
    let mixed = job.number.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (element << 32);
    mixed ^ u64::from(attempt.0)
}
