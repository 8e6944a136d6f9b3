//! Reads the lines with nodes and their devices.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use gpool_model::device::{Guest, Mig};
use gpool_model::id::{Attempt, JobId, TaskId};
use gpool_model::mig::Profile;
use gpool_model::node::NodeFacts;
use gpool_model::{
    Bytes, Device, DeviceHealth, DeviceProcess, DeviceUuid, Instance, LabelChange, Link, Node,
    NodeName, PoolName, ResourceKind, Resources, parse,
};

use crate::reader::Reader;
use crate::situation::Situation;
use crate::words::{ScenarioError, Words};

impl Reader {
    pub fn node(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let name = words.need("the name of the node")?;
        if name.contains(['[', ']']) {
            return Err(words.error("brackets stand around devices".to_owned()));
        }
        if self.situation.nodes.iter().any(|node| node.name.as_str() == name) {
            return Err(words.error(format!("node {name} stands here twice")));
        }
        let mut node = bare_node(name);
        let (mut can_pause, mut is_real) = (false, false);
        let mut instances = Vec::new();
        let (mut cpus, mut memory, mut tasks) =
            (Situation::CPUS, Situation::MEMORY, Situation::TASKS);
        // Parts of the task slots; none means all of them.
        let (mut plain, mut user) = (0, 0);
        while let Some(word) = words.next() {
            match word {
                "cpus" => cpus = words.parse("a number of cores", parse::cpus)?,
                "mem" => memory = words.parse("an amount of memory", parse::bytes)?,
                "tasks" => tasks = words.parse("a number of tasks", u32::from_str)?,
                "plain" => plain = words.parse("a number of tasks", u64::from_str)?,
                "user" => user = words.parse("a number of tasks", u64::from_str)?,
                "pool" => node.pool = PoolName::new(words.need("a pool")?),
                "label" => {
                    let word = words.need("a label")?;
                    let change = LabelChange::parse([word]);
                    let change = change.map_err(|error| words.error(error.to_string()))?;
                    node.labels = change.applied_to(&node.labels);
                }
                "unreachable" => node.connected = false,
                "pauses" => can_pause = true,
                "checkpoints" => (can_pause, is_real) = (true, true),
                "+" if !node.devices.is_empty() => {
                    let count = words.parse("a number of devices", u32::from_str)?;
                    instances.extend(devices(&mut node, count, words)?);
                }
                count if node.devices.is_empty() && count.parse::<u32>().is_ok() => {
                    let count = count.parse().unwrap_or(0);
                    instances.extend(devices(&mut node, count, words)?);
                }
                word => {
                    let known = "devices (2 x h100-80g), cpus, mem, tasks, plain, user, pool, \
                         label, pauses, checkpoints or unreachable";
                    return Err(words.unknown(word, known));
                }
            }
        }
        if !instances.is_empty() && node.devices.len() > Instance::DEVICES_MOST {
            let most = Instance::DEVICES_MOST;
            return Err(words.error(format!("a node with instances has at most {most} devices")));
        }
        node.devices.extend(instances);
        node.capacity = Resources::none().with_cpus(cpus).with_memory(memory).with_tasks(tasks);
        node.capacity.set(ResourceKind::PlainTasks, plain);
        node.capacity.set(ResourceKind::UserTasks, user);
        node.capacity.set(ResourceKind::PauseMemory, if can_pause { memory.get() } else { 0 });
        for device in node.devices.iter_mut().filter(|_| is_real) {
            device.pci_bus = format!("0000:{:02x}:00.0", device.index);
        }
        self.situation.nodes.push(node);
        Ok(())
    }

    pub fn gpu(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let now = self.situation.now;
        let (node, positions) = self.devices_of(words)?;
        let state = words.need("what the devices are")?;
        let by = if state == "unmanaged" && words.take("by") {
            Some(words.need("a user")?.to_owned())
        } else {
            None
        };
        let node = &mut self.situation.nodes[node];
        for position in positions {
            let device = &mut node.devices[position];
            match state {
                "unmanaged" => device.unmanaged.push(DeviceProcess {
                    pid: 4711,
                    user: by.clone(),
                    name: None,
                    memory: None,
                    seen_since: now,
                }),
                "unhealthy" => {
                    device.health = DeviceHealth::Unhealthy { why: "Xid 79".to_owned() };
                }
                "lost" => device.health = DeviceHealth::Lost,
                "unknown" => {
                    device.health = DeviceHealth::Unknown { why: "no answer".to_owned() };
                }
                "mig" => device.mig = Some(Mig { enabled: true, ..Mig::default() }),
                "forbidden" => {
                    let all = || node.devices.iter().map(|device| device.uuid.clone()).collect();
                    let mut allowed: BTreeSet<DeviceUuid> = node.allowed.take().unwrap_or_else(all);
                    allowed.remove(&node.devices[position].uuid);
                    node.allowed = Some(allowed);
                }
                "occupied" => {
                    let task = TaskId { job: JobId::single(99), attempt: Attempt::FIRST, rank: 0 };
                    let booked = DeviceUuid::new("GPU-elsewhere");
                    device.guests.push(Guest { task, booked, is_stuck: true });
                }
                word => {
                    let known = "unmanaged, unhealthy, lost, unknown, forbidden, mig or occupied";
                    return Err(words.unknown(word, known));
                }
            }
        }
        words.end()
    }

    pub fn link(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let (node, positions) = self.devices_of(words)?;
        let link = match words.need("a kind of link")? {
            "nvlink" => Link::NvLink(words.parse("a number of links", u32::from_str)?),
            "switch" => Link::Switch,
            "bridge" => Link::HostBridge,
            "numa" => Link::Numa,
            word => return Err(words.unknown(word, "nvlink, switch, bridge or numa")),
        };
        let devices = &mut self.situation.nodes[node].devices;
        for one in &positions {
            for other in positions.iter().filter(|other| *other != one) {
                let uuid = devices[*other].uuid.clone();
                devices[*one].links.insert(uuid, link);
            }
        }
        words.end()
    }
}

/// A node without devices and resources, ready since its boot.
fn bare_node(name: &str) -> Node {
    Node {
        name: NodeName::new(name),
        pool: PoolName::usual(),
        labels: gpool_model::Labels::new(),
        capacity: Resources::none(),
        devices: Vec::new(),
        allowed: None,
        drain: None,
        device_drains: BTreeMap::new(),
        boot_id: format!("boot-of-{name}"),
        settled_boot_id: format!("boot-of-{name}"),
        connected: true,
        silence: None,
        facts: NodeFacts::default(),
    }
}

/// Reads the rest of `2 x h100-80g` after its count, with `@70G` after the model for another memory
/// size, and with `/3g.40gb+1g.10gb` for devices divided into MIG instances. A divided device is
/// followed by its instances.
fn devices(
    node: &mut Node,
    count: u32,
    words: &mut Words<'_>,
) -> Result<Vec<Device>, ScenarioError> {
    if !words.take("x") {
        words.need("x and a model")?;
        return Err(words.error("expected x and a model: 2 x h100-80g".to_owned()));
    }
    let word = words.need("a model")?;
    let (word, layout) = match word.split_once('/') {
        Some((word, layout)) => (word, Some(layout)),
        None => (word, None),
    };
    let (model, memory) = match word.split_once('@') {
        Some((model, memory)) => {
            let memory = parse::bytes(memory).map_err(|error| words.error(error.to_string()))?;
            (model, memory)
        }
        None => (word, memory_of(word)),
    };
    if model.is_empty() {
        return Err(words.error("expected a model before its memory".to_owned()));
    }
    let n_devices = node.devices.len().saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
    if n_devices > Situation::DEVICES_MAX {
        return Err(words.error(format!("a node has at most {} devices", Situation::DEVICES_MAX)));
    }
    let layout = layout.map(|layout| Layout::parse(layout, memory, words)).transpose()?;
    let mut instances = Vec::new();
    for _ in 0..count {
        let position = node.devices.len();
        node.devices.push(Device::new(
            u32::try_from(position).unwrap_or(u32::MAX),
            DeviceUuid::new(format!("GPU-{}-{position}", node.name)),
            model.to_owned(),
            memory,
        ));
        if let (Some(layout), Some(device)) = (&layout, node.devices.last_mut()) {
            instances.extend(layout.divide(device, &node.name));
        }
    }
    Ok(instances)
}

/// The instances of a device, with their memory if it differs from the profile.
struct Layout {
    profiles: Vec<Profile>,
    memory: Vec<Option<Bytes>>,
}

impl Layout {
    fn parse(text: &str, memory: Bytes, words: &Words<'_>) -> Result<Self, ScenarioError> {
        let parts = text.split('+').map(|part| match part.split_once('@') {
            None => Ok((part, None)),
            Some((profile, memory)) => {
                let memory =
                    parse::bytes(memory).map_err(|error| words.error(error.to_string()))?;
                Ok((profile, Some(memory)))
            }
        });
        let (profiles, exact): (Vec<&str>, Vec<Option<Bytes>>) =
            parts.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
        let profiles = Profile::layout(profiles.into_iter(), memory)
            .map_err(|error| words.error(error.to_string()))?;
        Ok(Self { profiles, memory: exact })
    }

    fn divide(&self, device: &mut Device, node: &NodeName) -> Vec<Device> {
        let parent = device.index;
        let uuid = |place| DeviceUuid::new(format!("MIG-{node}-{parent}-{place}"));
        let mut instances = device.divide(&self.profiles, uuid);
        for (instance, memory) in instances.iter_mut().zip(&self.memory) {
            instance.memory = memory.unwrap_or(instance.memory);
        }
        instances
    }
}

/// The numbers of a node's devices in a scenario: a real driver may skip some indexes.
pub(crate) fn numbers(node: &Node) -> Vec<u32> {
    let position = |index: u32| node.devices.iter().position(|device| device.index == index);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let number = |(at, device): (usize, &Device)| {
        let Some(instance) = &device.instance else { return count(at) };
        let before = node.devices[..at].iter().filter_map(|device| device.instance.as_deref());
        let place = before.filter(|it| it.parent == instance.parent).count();
        Instance::index(position(instance.parent).map_or(u32::MAX, count), count(place))
    };
    node.devices.iter().enumerate().map(number).collect()
}

/// The profile of an instance, as [`Layout::parse`] reads it.
pub(crate) fn profile_of(device: &Device, instance: &Instance) -> (String, Bytes) {
    let profile = Profile::of(instance.compute_slices, device.memory);
    (profile.to_string(), profile.memory())
}

/// The memory in a model's name: 80 GiB for `h100-80g`, and as default.
pub(crate) fn memory_of(model: &str) -> Bytes {
    let last = model.rsplit('-').next().unwrap_or(model);
    let digits = last.trim_end_matches(['g', 'G', 'b', 'B']);
    let gib = if digits.len() == last.len() { None } else { digits.parse::<u32>().ok() };
    Bytes::from_gib(gib.unwrap_or(80))
}
