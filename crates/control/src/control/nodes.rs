//! Nodes and their devices: the reports of agents and the settings of admins.

use std::collections::BTreeSet;

use gpool_model::agent::{Stamp, TaskEnd};
use gpool_model::effect::Change;
use gpool_model::id::is_plain_name;
use gpool_model::job::{EndCause, StopCause};
use gpool_model::node::NodeFacts;
use gpool_model::refusal::Permitted;
use gpool_model::{
    Caller, Device, DeviceStrategy, DeviceUuid, Effect, JobId, LabelChange, Membership, Node,
    NodeName, Phase, PoolName, Refusal, Reply, Resources, Silence, TaskId,
};

use crate::control::Control;
use crate::control::claims::is_claim;
use crate::control::gang::{has_ended, started_at};

/// The largest number of labels of a node.
const LABELS_MAX: usize = 64;

impl Control {
    pub(crate) fn inventory(
        &mut self,
        name: &NodeName,
        stamp: Stamp,
        capacity: Resources,
        devices: Vec<Device>,
        boot_id: String,
        facts: NodeFacts,
    ) {
        let Some(is_new) = self.introduce(name, stamp) else {
            return;
        };
        let before = self.world.node(name).map(|row| &row.node);
        let node = Node {
            name: name.clone(),
            pool: before.map_or_else(PoolName::usual, |node| node.pool.clone()),
            labels: before.map(|node| node.labels.clone()).unwrap_or_default(),
            capacity,
            devices,
            allowed: before.and_then(|node| node.allowed.clone()),
            drain: before.and_then(|node| node.drain.clone()),
            device_drains: before.map(|node| node.device_drains.clone()).unwrap_or_default(),
            settled_boot_id: before.map_or(&boot_id, |node| &node.settled_boot_id).clone(),
            connected: before.is_some_and(|node| node.connected && !is_new),
            silence: before.and_then(|node| node.silence),
            boot_id,
            facts,
        };
        let has_joined = before.is_none();
        let pulls = before.map(|before| before.facts.images.clone()).unwrap_or_default();
        if before.is_none_or(|before| *before != node) {
            let idle = before.map(|before| before.facts.idle.clone()).unwrap_or_default();
            let devices = before.map(|before| before.devices.clone()).unwrap_or_default();
            self.world.put_node(node.clone());
            self.publish(Change::NodeChanged { node: name.clone() });
            if has_joined {
                self.publish_membership(name);
            }
            self.idle_changed(name, &idle);
            // Before the policies below: their messages list the errors of the job.
            self.xids_changed(name, &devices);
            self.over_limit_changed(name, &devices);
            self.returns(name);
        }
        self.pulls_changed(name, &pulls, is_new);
        if is_new {
            // No job starts there before the agent has reported its tasks.
            self.ask(name);
        }
    }

    pub(crate) fn connect(&mut self, name: &NodeName) {
        let Some(row) = self.world.node(name) else {
            return;
        };
        if !row.node.connected {
            let settled_boot_id = row.node.boot_id.clone();
            let node = Node { connected: true, settled_boot_id, ..row.node.clone() };
            self.world.put_node(node);
            self.publish(Change::NodeChanged { node: name.clone() });
            self.publish_membership(name);
        }
    }

    pub(crate) fn publish_membership(&mut self, name: &NodeName) {
        let is = self.world.node(name).map_or(Membership::Removed, |row| row.node.membership());
        self.publish(Change::NodeMembership { node: name.clone(), is });
    }

    /// Notes that an agent has been silent since a time, or is heard again. A silent node gets no
    /// new jobs, and its running jobs go on. If it is lost, its fenced tasks have ended.
    pub(crate) fn silence(&mut self, name: &NodeName, silence: Option<Silence>) {
        if silence.is_none() {
            self.meet(name);
        }
        let row = self.world.node(name);
        if let Some(row) = row.filter(|row| row.node.silence != silence) {
            self.world.put_node(Node { silence, ..row.node.clone() });
            self.publish(Change::NodeChanged { node: name.clone() });
            self.publish_membership(name);
            if silence.is_none() {
                // Orders and reports may have been lost meanwhile.
                self.ask(name);
            }
        }
        if silence.is_some_and(|silence| silence.is_lost) {
            self.end_fenced(name);
            self.effect(Effect::Readmit(name.clone()));
        }
    }

    /// Ends the fenced tasks of a lost node. Other tasks may still run.
    fn end_fenced(&mut self, name: &NodeName) {
        let fenced = (self.world.holding())
            .filter(|row| row.spec.life.on_node_lost.is_fenced())
            .filter(|row| row.job.phase.allocations().iter().any(|it| it.node == *name));
        let jobs: Vec<JobId> = fenced.map(|row| row.job.id).collect();
        self.end_lost(name, &jobs);
    }

    /// Ends the tasks of some jobs on a lost node.
    pub(crate) fn end_lost(&mut self, name: &NodeName, jobs: &[JobId]) {
        for &id in jobs {
            // The end of one may end others, as of an array with too many failures.
            let Some(job) = self.world.job(id).map(|row| row.job.clone()) else { continue };
            if matches!(job.phase, Phase::Starting { .. }) && is_claim(job.phase.allocations()) {
                // No node knows about it.
                self.give_up_claim(id, &StopCause::TaskRefused { rank: 0 });
                continue;
            }
            let here = job.phase.allocations().iter().filter(|it| it.node == *name);
            let tasks: Vec<TaskId> = here.map(|allocation| allocation.task).collect();
            for task in tasks {
                self.lost_ended(task);
            }
        }
    }

    fn lost_ended(&mut self, task: TaskId) {
        let Some(job) = self.world.job(task.job).map(|row| row.job.clone()) else { return };
        let is_held = job.phase.allocations().iter().any(|it| it.task == task);
        if !is_held || has_ended(&job, task) {
            return;
        }
        let stopped = matches!(job.phase, Phase::Stopping { .. });
        let end = TaskEnd {
            cause: Some(EndCause::NodeLost).filter(|_| !stopped),
            stopped,
            ..self.vanished(started_at(&job, task))
        };
        self.task_ended(task, &end);
    }

    pub(crate) fn allow_devices(
        &mut self,
        caller: &Caller,
        name: &NodeName,
        devices: Option<&[String]>,
    ) -> Result<Reply, Refusal> {
        admin(caller, || format!("choose the GPUs of {name} for new jobs"))?;
        let row = self.world.node(name);
        let row = row.ok_or_else(|| Refusal::NoSuchNode { name: name.clone() })?;
        let find = |text: &String| -> Result<DeviceUuid, Refusal> {
            find_device(&row.node, text).ok_or_else(|| no_such_device(&row.node, text))
        };
        let allowed = match devices {
            None => None,
            Some(devices) => Some(devices.iter().map(find).collect::<Result<BTreeSet<_>, _>>()?),
        };
        if row.node.allowed != allowed {
            let node = Node { allowed, ..row.node.clone() };
            self.world.put_node(node);
            self.publish(Change::NodeChanged { node: name.clone() });
        }
        Ok(Reply::Done)
    }

    pub(crate) fn pool_of(&self, name: &NodeName) -> PoolName {
        self.world.node(name).map_or_else(PoolName::usual, |row| row.node.pool.clone())
    }

    /// Running jobs stay, and jobs that ask for the old pool keep waiting.
    pub(crate) fn move_nodes(
        &mut self,
        caller: &Caller,
        names: &[NodeName],
        pool: &PoolName,
    ) -> Result<Reply, Refusal> {
        admin(caller, || format!("move nodes into pool {pool}"))?;
        if !is_plain_name(pool.as_str()) {
            let why = format!(
                "{:?} is not a pool name; write letters, digits, dots, dashes or underscores, \
                 beginning with a letter: batch",
                pool.as_str().chars().take(80).collect::<String>()
            );
            return Err(Refusal::Invalid { field: "pool".to_owned(), why });
        }
        self.check_nodes(names)?;
        for name in names {
            let row = self.world.node(name).expect("it was found just now");
            if row.node.pool != *pool {
                self.world.put_node(Node { pool: pool.clone(), ..row.node.clone() });
                self.publish(Change::NodeChanged { node: name.clone() });
            }
        }
        Ok(Reply::Done)
    }

    /// Running jobs stay, and jobs that ask for a removed label keep waiting.
    pub(crate) fn label_nodes(
        &mut self,
        caller: &Caller,
        names: &[NodeName],
        change: &LabelChange,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "change labels of nodes".to_owned())?;
        self.check_nodes(names)?;
        for name in names {
            let row = self.world.node(name).expect("it was found just now");
            let labels = change.applied_to(&row.node.labels);
            if labels.len() > LABELS_MAX {
                let most = format!("{LABELS_MAX} labels");
                return Err(Refusal::TooLarge { what: format!("the labels of {name}"), most });
            }
        }
        for name in names {
            let row = self.world.node(name).expect("it was found just now");
            let labels = change.applied_to(&row.node.labels);
            if row.node.labels != labels {
                self.world.put_node(Node { labels, ..row.node.clone() });
                self.publish(Change::NodeChanged { node: name.clone() });
            }
        }
        Ok(Reply::Done)
    }

    /// Checks that every named node exists.
    fn check_nodes(&self, names: &[NodeName]) -> Result<(), Refusal> {
        match names.iter().find(|name| self.world.node(name).is_none()) {
            Some(name) => Err(Refusal::NoSuchNode { name: name.clone() }),
            None => Ok(()),
        }
    }

    pub(crate) fn set_strategy(
        &mut self,
        caller: &Caller,
        strategy: DeviceStrategy,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "change the strategy that chooses GPUs".to_owned())?;
        if self.world.policy().device_strategy != strategy {
            let mut policy = self.world.policy().clone();
            policy.device_strategy = strategy;
            self.world.put_policy(policy);
        }
        Ok(Reply::Done)
    }
}

/// Finds a device of a node by index or UUID.
pub(crate) fn find_device(node: &Node, text: &str) -> Option<DeviceUuid> {
    let index = text.parse::<u32>().ok();
    let mut devices = node.devices.iter();
    let found = devices.find(|device| Some(device.index) == index || device.uuid.as_str() == text);
    found.map(|device| device.uuid.clone())
}

/// The refusal of a device that the node does not have.
pub(crate) fn no_such_device(node: &Node, text: &str) -> Refusal {
    Refusal::NoSuchDevice {
        device: text.chars().take(80).collect(),
        node: node.name.clone(),
        n_devices: u32::try_from(node.devices.len()).unwrap_or(u32::MAX),
    }
}

impl Control {
    /// Running jobs stay, even above their user's new caps.
    pub(crate) fn set_user_caps(
        &mut self,
        caller: &Caller,
        user: Option<std::sync::Arc<str>>,
        caps: gpool_model::policy::Caps,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "set limits of users".to_owned())?;
        let mut policy = self.world.policy().clone();
        match user {
            Some(user) => drop(policy.user_caps.of.insert(user, caps)),
            None => policy.user_caps.all = caps,
        }
        if policy != *self.world.policy() {
            self.world.put_policy(policy);
        }
        Ok(Reply::Done)
    }
}

/// Refuses a caller that is not an admin.
pub(crate) fn admin(caller: &Caller, what: impl Fn() -> String) -> Result<(), Refusal> {
    match caller.admin {
        true => Ok(()),
        false => Err(Refusal::NotPermitted { what: what(), by: Permitted::Admin }),
    }
}
