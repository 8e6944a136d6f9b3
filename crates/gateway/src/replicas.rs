//! The jobs of a service as its gateway sees them: which replica each one is, and its stage.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use gpool_model::GroupPlace;
use gpool_model::job::JobState;
use gpool_wire::{Job, JobCreate};

use crate::plan::Stage;
use crate::proxy::replica::Endpoint;
use crate::service::{REPLICA, Revision, Service};

/// The ports of replicas: below those that the kernel gives to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A replica by its job.
#[derive(Debug, Clone)]
pub struct ReplicaJob {
    /// Its index in the group.
    pub index: u64,
    /// Its revision; 0 if its name was changed.
    pub revision: u32,
    /// Its job.
    pub job: Job,
}

impl ReplicaJob {
    /// The replica of a job, if it is one.
    #[must_use]
    pub fn of(job: Job) -> Option<Self> {
        let place = GroupPlace::parse(job.request.group.as_deref()?).ok()?;
        if place.role.as_deref() != Some(REPLICA) {
            return None;
        }
        let revision = job.name.rsplit_once("-r").and_then(|(_, number)| number.parse().ok());
        Some(Self { index: place.index?, revision: revision.unwrap_or(0), job })
    }

    /// The stage by the job alone: a running replica may be ready or not.
    #[must_use]
    pub fn stage(&self) -> Option<Stage> {
        Some(match self.job.state {
            JobState::Held | JobState::Waiting | JobState::Pending | JobState::Paused => {
                Stage::Pending
            }
            JobState::Starting | JobState::Running => Stage::Starting,
            JobState::Stopping => Stage::Stopping,
            JobState::Succeeded
            | JobState::Failed
            | JobState::Cancelled
            | JobState::TimedOut
            | JobState::Lost => return None,
        })
    }

    /// Its node.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        self.job.placement.first().map(|placed| placed.node.as_str())
    }
}

/// The name of the replicas of a revision.
#[must_use]
pub fn name(service: &str, revision: u32) -> String {
    format!("{service}-r{revision}")
}

/// The port of a replica. It follows from its index, so that a gateway that starts again knows it.
#[must_use]
pub fn port(seed: u32, index: u64) -> u16 {
    let n = u64::from(PORTS.end - PORTS.start);
    let offset = (u64::from(seed) + index) % n;
    PORTS.start + u16::try_from(offset).unwrap_or(0)
}

/// The job of a new replica.
#[must_use]
pub fn request(service: &Service, revision: &Revision, index: u64, reason: &str) -> JobCreate {
    let mut job = revision.job.clone();
    let port = port(service.replicas.port_seed, index);
    for word in &mut job.command {
        *word = word.replace("{port}", &port.to_string()).replace("{host}", "0.0.0.0");
    }
    job.environment.insert("PORT".to_owned(), port.to_string());
    job.name = Some(name(&service.name, revision.number));
    job.group = Some(format!("{}/{REPLICA}/{index}", service.name));
    job.note = Some(reason.chars().take(200).collect());
    job
}

/// Whether the command lets other machines connect.
#[must_use]
pub fn is_open_to_network(job: &JobCreate) -> bool {
    job.command.iter().any(|word| word.contains("{host}"))
}

/// How the gateway on `here` reaches a port of a job on `node`, which has `address` for other
/// machines.
#[must_use]
pub fn endpoint(
    port: u16,
    node: Option<&str>,
    here: &str,
    address: Option<&str>,
    is_open: bool,
) -> Endpoint {
    if node == Some(here) {
        return Endpoint::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    let address: Option<IpAddr> = address.filter(|_| is_open).and_then(|it| it.parse().ok());
    match address {
        Some(address) => Endpoint::Tcp(SocketAddr::new(address, port)),
        None => Endpoint::Server,
    }
}
