//! Configuration of a server.

use std::path::PathBuf;

use gpool_model::{DeviceStrategy, Labels, Millis, NodeName, PoolName};

use crate::account::FindAccount;
use crate::handle::FindUser;
use crate::limits::Limits;
use gpool_identity::sign_in::ProviderConfig;
use gpool_identity::tls::NetworkConfig;
use gpool_identity::web::WebAddress;
use gpool_insight::lives::settings::Telemetry;
use gpool_post::NotifySettings;

#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// State directory. Created if missing.
    pub state_dir: PathBuf,
    /// Path of the API socket.
    pub socket: PathBuf,
    /// The nodes with an agent in this process: at least one, without duplicates.
    pub nodes: Vec<NodeName>,
    /// New pools of some nodes; the other nodes stay in their pools.
    pub pools: Vec<(NodeName, PoolName)>,
    /// Labels to add to some nodes.
    pub labels: Vec<(NodeName, Labels)>,
    /// Devices of each node that new allocations may use, by index or UUID; `None` changes nothing.
    pub allowed: Option<Vec<String>>,
    /// Order in which whole devices are allocated; `None` changes nothing.
    pub strategy: Option<DeviceStrategy>,
    pub web: WebAddress,
    /// How the server listens on the network, if it does.
    pub network: Option<NetworkConfig>,
    /// The identity provider, if there is one.
    pub provider: Option<ProviderConfig>,
    /// Whether entries of the audit log go to the system's log, too.
    pub audit_syslog: bool,
    pub limits: Limits,
    /// Minimum number of stored journal entries; `None` uses the default.
    pub journal_entries: Option<u64>,
    /// Retention time of a job's output after its end; `None` means forever.
    pub keep_output: Option<Millis>,
    /// Retention time of the data for a retry of an ended job: environment and script.
    pub keep_environment: Millis,
    /// After this time without a message, an agent is silent, and its node gets no new jobs.
    pub node_lease: Millis,
    pub telemetry: Telemetry,
    pub notify: NotifySettings,
    pub find_account: FindAccount,
    /// Finds users by name or number.
    pub find_user: FindUser,
}
