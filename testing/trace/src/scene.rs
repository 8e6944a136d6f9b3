//! A view of the cluster while a trace is played.

use gpool_model::{MilliGpu, Timestamp};

use crate::outcome::Played;

/// The state of the cluster between two events.
///
/// It is read in place and nothing is copied, so it costs nothing unless it is used.
pub trait Scene {
    /// Since when the cluster has this state.
    fn now(&self) -> Timestamp;

    /// The number of jobs that were submitted and have not ended.
    fn n_live(&self) -> usize;

    /// These jobs, in the order of submission.
    fn live(&self) -> Box<dyn Iterator<Item = Seen<'_>> + '_>;

    /// The ended jobs, in the order of their ends; later jobs are only appended.
    fn ended(&self) -> &[Played];
}

/// A job that was submitted and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<'a> {
    pub owner: &'a str,
    /// The amount of GPUs that it asks for.
    pub gpus: MilliGpu,
    /// Its devices if it runs, each as the number of the node and the index there. Empty for a
    /// running job that asks for none.
    pub devices: Option<&'a [(u32, u32)]>,
}

/// A callback that gets the cluster and the time until which it stays in this state.
pub type Look<'a> = dyn FnMut(&dyn Scene, Timestamp) + 'a;
