//! The surroundings of the thread that polls the devices.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use gpool_link::ServerLink;

use super::Samples;
use crate::enforcement::Shim;
use crate::images::Containers;
use crate::recent::RecentValues;
use crate::shared_facts::SharedFacts;
use crate::topology::FoundPlace;

/// The parts of the agent that the thread tells about devices, or needs to describe them.
pub(crate) struct About {
    pub samples: Samples,
    pub recent: RecentValues,
    /// Whether tasks are kept from other devices, or why not.
    pub filter: Result<(), String>,
    pub shim: Result<Shim, String>,
    pub facts: SharedFacts,
    /// The folder of control groups that the driver could limit, or why there is none.
    pub groups: Result<PathBuf, String>,
    pub containers: Containers,
    pub place: FoundPlace,
    pub server: Arc<dyn ServerLink>,
    /// Has telemetry sent at once.
    pub push: Sender<()>,
}
