//! A cluster on which a trace is played, for whoever wants to look at it meanwhile.

use gpool_model::{MilliGpu, Timestamp};

use crate::outcome::Played;

/// The cluster as it stands between two moments at which something happens.
///
/// It is looked at where it is and nothing is copied, so it costs nothing as long as nobody asks.
pub trait Scene {
    /// Since when it stands like that.
    fn now(&self) -> Timestamp;

    /// How many jobs have come and not ended.
    fn n_live(&self) -> usize;

    /// These jobs, in the order of coming.
    fn live(&self) -> Box<dyn Iterator<Item = Seen<'_>> + '_>;

    /// Those that have ended, in the order in which they did; more are only added behind.
    fn ended(&self) -> &[Played];
}

/// A job that has come and not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Whose it is.
    pub owner: &'a str,
    /// How much it asks for.
    pub gpus: MilliGpu,
    /// Its devices, number of the node and index there, if it runs. One that asks for none has none
    /// when it runs, too.
    pub devices: Option<&'a [(u32, u32)]>,
}

/// Who looks: at the cluster, and until when it stands like that.
pub type Look<'a> = dyn FnMut(&dyn Scene, Timestamp) + 'a;
