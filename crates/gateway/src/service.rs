//! A service as its user described it, and the state that its gateway reports: files in the user's
//! folder of services, so that a gateway that starts again finds both.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use gpool_wire::JobCreate;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::measure::Figures;
use crate::plan::Stage;
use crate::scale::ScaleRules;

/// The role of the gateway in the group of a service.
pub const GATEWAY: &str = "gateway";
/// The role of the replicas.
pub const REPLICA: &str = "replica";

const SERVICE: &str = "service.json";
const STATUS: &str = "status.json";

/// A service. Its revisions have the environment of the user, so only that user can read the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Name of the service, and of its group of jobs.
    pub name: String,
    /// The newest revision.
    pub current: Revision,
    /// The revision before, to go back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Revision>,
    /// Percentage of the requests that go to the newest revision while it is a canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<u32>,
    /// The listener.
    pub entrance: Entrance,
    /// The rules of its size.
    pub scale: ScaleRules,
    /// The rules of its requests.
    pub requests: RequestRules,
    /// The rules of its replicas.
    pub replicas: ReplicaRules,
}

/// A version of the replicas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Revision {
    /// Its number, from 1.
    pub number: u32,
    /// The job of a replica, with `{port}` in its command.
    pub job: JobCreate,
}

/// Where the gateway listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entrance {
    /// IP address.
    pub bind: std::net::IpAddr,
    /// Port.
    pub port: u16,
    /// Files in PEM with certificate chain and key, for HTTPS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
}

/// A certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The chain, the server's certificate first.
    pub chain: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How the gateway treats requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRules {
    /// Most requests that a replica gets at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Most requests that are held while no replica can take them.
    pub max_held: u32,
    /// Longest time that one is held.
    pub hold_ms: u64,
    /// Whether a request is repeated even if its method is not idempotent, as POST, after its
    /// replica died before it answered.
    pub is_post_repeated: bool,
}

/// How the gateway treats replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaRules {
    /// Path of the probe. Absent: a replica is ready when it accepts connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Longest time from the start of a replica until it is ready.
    pub ready_timeout_ms: u64,
    /// Time for the requests in flight before a replica ends.
    pub drain_ms: u64,
    /// Start of the ports of the replicas, by chance: services of other users have others.
    pub port_seed: u32,
}

impl Service {
    /// The address of the service for its users.
    #[must_use]
    pub fn url(&self, host: &str) -> String {
        let scheme = if self.entrance.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}", self.entrance.port)
    }

    /// The revision with a number, if it is stored.
    #[must_use]
    pub fn revision(&self, is_new: bool) -> Option<&Revision> {
        if is_new { Some(&self.current) } else { self.previous.as_ref() }
    }
}

/// The state of a service, as its gateway writes it every second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Time of the report, in seconds since 1970.
    pub at_s: u64,
    /// Job of the gateway.
    pub gateway: String,
    /// Address of the service.
    pub url: String,
    /// Number of replicas to have.
    pub n_wanted: u32,
    /// Why.
    pub reason: String,
    /// The state of an update. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
    /// Requests in flight.
    pub n_in_flight: u32,
    /// Requests that wait for a replica.
    pub n_held: u32,
    /// Answers of the last minute.
    pub figures: Figures,
    /// Sums since the start of the gateway.
    pub sums: Sums,
    /// Its replicas, by index.
    pub replicas: Vec<ReplicaStatus>,
    /// The last decisions, the newest last.
    pub decisions: Vec<PastDecision>,
}

/// Counts since the start of a gateway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sums {
    /// Requests.
    pub n_requests: u64,
    /// Requests that were repeated with another replica.
    pub n_repeated: u64,
    /// Requests that were refused because too many were held, or for too long.
    pub n_refused: u64,
    /// Requests that failed with their replica, and could not be repeated.
    pub n_failed: u64,
}

/// A replica in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaStatus {
    /// Its index in the group.
    pub index: u64,
    /// Its job.
    pub job: String,
    /// Its revision.
    pub revision: u32,
    /// Its stage.
    pub stage: Stage,
    /// Its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its requests in flight.
    pub n_in_flight: u32,
    /// Why it is in this stage, if that is not usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A change of the number of replicas, or an event of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastDecision {
    /// Its time, in seconds since 1970.
    pub at_s: u64,
    /// What changed, and why.
    pub text: String,
}

/// The folder of the user's services, or of one of them.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder of all services. `None` if the user has no home.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let set =
            |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let base = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let base = base.or_else(|| Some(set("HOME")?.join(".local/share")))?;
        Some(Self(base.join("gpool/services")))
    }

    /// The folder at a path.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The folder of a service.
    #[must_use]
    pub fn of(&self, name: &str) -> Self {
        Self(self.0.join(name))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The names of all services with a folder, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
        let is_service = |name: &String| !name.starts_with('.');
        let mut names: Vec<String> = entries.filter_map(name).filter(is_service).collect();
        names.sort();
        names
    }

    /// Reads the service.
    ///
    /// # Errors
    /// The file can't be read, or another version of gpool wrote it.
    pub fn service(&self) -> io::Result<Service> {
        read(&self.0.join(SERVICE))
    }

    /// Writes the service.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn put_service(&self, service: &Service) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        write(&self.0.join(SERVICE), service)
    }

    /// Reads the last report of the gateway.
    ///
    /// # Errors
    /// There is none.
    pub fn status(&self) -> io::Result<Status> {
        read(&self.0.join(STATUS))
    }

    /// Writes a report.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn put_status(&self, status: &Status) -> io::Result<()> {
        write(&self.0.join(STATUS), status)
    }

    /// Removes the folder.
    ///
    /// # Errors
    /// It can't be removed.
    pub fn remove(&self) -> io::Result<()> {
        // Under another name first: the gateway may still write a report.
        let gone = self.0.with_file_name(format!(".removed-{}", std::process::id()));
        fs::rename(&self.0, &gone)?;
        fs::remove_dir_all(gone)
    }

    /// Removes the last report, so that it does not count for a new gateway.
    pub fn remove_status(&self) {
        let _ = fs::remove_file(self.0.join(STATUS));
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
}

/// Replaces a file at once, so that a reader never sees half of it.
fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let new = path.with_extension(format!("new{}", std::process::id()));
    let mut options = fs::OpenOptions::new();
    let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    fs::rename(&new, path)
}
