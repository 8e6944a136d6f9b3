//! The cluster of a simulation: equal nodes, or a recorded cluster with its projects, pools and
//! policies.

use std::collections::BTreeMap;

use gpool_control::Control;
use gpool_model::job::Owner;
use gpool_model::{
    Bytes, Caller, Command, Device, DeviceUuid, Effect, Event, MilliCpu, Node, NodeName, Policy,
    PoolName, Record, Refusal, RequestId, Resources, Revision, Timestamp,
};
use gpool_world::{LoadError, World};

use crate::jobs::EPOCH;

/// Nodes that are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nodes {
    /// The number of nodes.
    pub n: u32,
    /// The number of devices of each node.
    pub n_gpus: u32,
}

/// A node in tables and pictures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    /// How many devices it has.
    pub n_gpus: u32,
    /// How many of its devices jobs may use.
    pub n_usable: u32,
}

/// All nodes, by their numbers in [`crate::queue::Ran::devices`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// In the order of their names.
    pub nodes: Vec<Place>,
}

impl Layout {
    /// Returns how many devices jobs may use.
    #[must_use]
    pub fn n_usable(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.n_usable)).sum()
    }

    /// Returns the shape of the nodes if all have the same number of devices, all usable.
    #[must_use]
    pub fn alike(&self) -> Option<Nodes> {
        let n_gpus = self.nodes.first()?.n_gpus;
        let is_like = |node: &Place| (node.n_gpus, node.n_usable) == (n_gpus, n_gpus);
        let n = u32::try_from(self.nodes.len()).ok()?;
        self.nodes.iter().all(is_like).then_some(Nodes { n, n_gpus })
    }
}

impl From<Nodes> for Layout {
    fn from(nodes: Nodes) -> Self {
        let n_gpus = nodes.n_gpus;
        let place = |n| Place { name: format!("node {n}"), n_gpus, n_usable: n_gpus };
        Self { nodes: (0..nodes.n).map(place).collect() }
    }
}

/// One plan in this number is verified.
const VERIFY_ONE_OF: u64 = 16;

/// A cluster without jobs.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) control: Control,
    /// The nodes that agents report, by name.
    pub(crate) nodes: BTreeMap<NodeName, Node>,
    /// The begin of the simulation.
    pub(crate) began: Timestamp,
}

impl Cluster {
    /// A cluster of equal nodes and one project.
    #[must_use]
    pub fn alike(nodes: Nodes, policy: Policy) -> Self {
        let nodes = (0..nodes.n).map(|n| (node_name(n), node(n, nodes.n_gpus))).collect();
        Self::of_nodes(nodes, policy)
    }

    /// A cluster of these nodes and one project.
    pub(crate) fn of_nodes(nodes: BTreeMap<NodeName, Node>, policy: Policy) -> Self {
        Self::with(Control::create(policy), nodes, EPOCH)
    }

    /// A recorded cluster: its policy, projects and nodes, without jobs.
    ///
    /// # Errors
    /// If the records contradict each other.
    pub fn of_records(records: Vec<Record>, began: Timestamp) -> Result<Self, LoadError> {
        let nodes = records.iter().filter_map(|record| match record {
            Record::Node(node) => Some((node.name.clone(), (**node).clone())),
            _ => None,
        });
        let nodes = nodes.collect();
        let control = Control::new(World::load(Revision(0), records)?);
        Ok(Self::with(control, nodes, began))
    }

    fn with(mut control: Control, nodes: BTreeMap<NodeName, Node>, began: Timestamp) -> Self {
        control.verify_one_of(VERIFY_ONE_OF);
        Self { control, nodes, began }
    }

    /// Carries out an admin's command before the first job.
    ///
    /// # Errors
    /// If the cluster refuses the command.
    pub fn ask(&mut self, command: Command) -> Result<(), Refusal> {
        let (request, caller) = (RequestId(0), admin());
        let asked = Event::Requested { request, caller, command };
        let mut replies = durable(&mut self.control, self.began, vec![asked]).into_iter();
        let reply = replies.find_map(|effect| match effect {
            Effect::Reply { reply, .. } => Some(reply),
            _ => None,
        });
        reply.map_or(Ok(()), |reply| reply.map(drop))
    }

    /// Returns the nodes of the cluster.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let place = |node: &Node| {
            // Admins may have excluded or divided devices.
            let is_usable = |device: &&Device| node.allows(&device.uuid) && !device.is_divided();
            let n_usable = node.devices.iter().filter(is_usable).count();
            Place {
                name: node.name.to_string(),
                n_gpus: u32::try_from(node.devices.len()).unwrap_or(u32::MAX),
                n_usable: u32::try_from(n_usable).unwrap_or(u32::MAX),
            }
        };
        Layout { nodes: self.nodes.values().map(place).collect() }
    }
}

/// Processes events together; all commits are durable at once.
pub(crate) fn durable(control: &mut Control, now: Timestamp, events: Vec<Event>) -> Vec<Effect> {
    let mut all = Vec::new();
    let mut events = Some(events);
    while let Some(now_events) = events.take() {
        for effect in control.step(now, now_events) {
            if let Effect::Commit(commit) = &effect {
                events = Some(vec![Event::Committed { revision: commit.revision }]);
            }
            all.push(effect);
        }
    }
    all
}

fn admin() -> Caller {
    Caller::new(Owner { uid: 0, gid: 0, user: "root".into() }, true)
}

fn node_name(n: u32) -> NodeName {
    NodeName::new(format!("node{n:05}"))
}

/// Returns a node with this many devices, and more host resources than jobs ever ask for.
pub fn node(n: u32, n_gpus: u32) -> Node {
    let device = |index| {
        Device::new(
            index,
            DeviceUuid::new(format!("GPU-{n:05}-{index}")),
            "GPU".to_owned(),
            Bytes::from_gib(80),
        )
    };
    let room = Resources::none().with_cpus(MilliCpu::new(1_000_000));
    let capacity = room.with_memory(Bytes::from_gib(4096)).with_tasks(100_000);
    let devices = (0..n_gpus).map(device).collect();
    let node = Node::new(node_name(n), PoolName::usual(), capacity, devices);
    Node { boot_id: "boot".to_owned(), ..node }
}
