//! What a server is started with.

use std::path::PathBuf;

use gpool_model::{DeviceStrategy, Labels, Millis, NodeName, PoolName};

use crate::handle::FindUser;
use crate::http;
use crate::limits::Limits;
use crate::older::FindLaunched;
use crate::post::NotifySettings;

/// What a server is started with.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where the state is kept; made if it is not there.
    pub state_dir: PathBuf,
    /// Where the API listens.
    pub socket: PathBuf,
    /// The nodes that have their agents in this process, at least one, each once.
    pub nodes: Vec<NodeName>,
    /// The pools in which some of them are from now on; the others stay where they are.
    pub pools: Vec<(NodeName, PoolName)>,
    /// Labels that some of them have from now on, beside those that they have.
    pub labels: Vec<(NodeName, Labels)>,
    /// Devices of each node that new allocations may use from now on, by index or UUID; `None`
    /// leaves it as it was.
    pub allowed: Option<Vec<String>>,
    /// How whole devices are chosen from now on; `None` leaves it as it was.
    pub strategy: Option<DeviceStrategy>,
    /// What one user may take of the server.
    pub limits: Limits,
    /// Entries of the journal that are kept at least; `None` keeps the usual number.
    pub journal_entries: Option<u64>,
    /// How long the output of a job is kept after its end; `None` is forever.
    pub keep_output: Option<Millis>,
    /// How long what an ended job needs to be run again is kept: its environment, its script.
    pub keep_environment: Millis,
    /// How messages about jobs are sent.
    pub notify: NotifySettings,
    /// Looks users up.
    pub find_account: http::FindAccount,
    /// Finds users by name or number.
    pub find_user: FindUser,
    /// Finds the tasks that were launched from the state folder.
    pub find_launched: FindLaunched,
    /// Gives free memory back to the system; called after much was freed at once.
    pub give_back_memory: fn(),
}
