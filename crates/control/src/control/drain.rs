//! Drained nodes and devices: no new work starts there, and running work has until a deadline.

use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::{
    Affected, Caller, Consent, Displace, Drain, DrainOutcome, DrainTarget, JobSpec, Node, NodeName,
    Refusal, Reply, Timestamp,
};
use gpool_world::Snapshot;

use crate::affected::{Clearing, drained};
use crate::control::Control;
use crate::control::nodes::{admin, find_device};
use crate::control::reserve::checked_reason;

impl Control {
    pub(crate) fn drain(
        &mut self,
        caller: &Caller,
        targets: &[DrainTarget],
        by: Option<Timestamp>,
        reason: &Arc<str>,
        consent: Consent,
    ) -> Result<Reply, Refusal> {
        let action = format!("drain {}", words(targets));
        admin(caller, || action.clone())?;
        self.check_targets(targets)?;
        checked_reason(reason, true)?;
        let is_moving = consent.choice.is_some_and(|choice| choice != Displace::LetFinish);
        // Without a deadline, jobs are ordered to leave at once.
        let by = by.or(is_moving.then_some(self.now));
        if by.is_some_and(|by| by < self.now) {
            let why = "it is in the past; leave it out, or give a later time".to_owned();
            return Err(Refusal::Invalid { field: "by".to_owned(), why });
        }
        self.world.advance(self.now);
        let affected = self.affected_by_drain(targets, by);
        let outcome = |done| {
            let (targets, affected) = (targets.to_vec(), affected.clone());
            Ok(Reply::Drained(Box::new(DrainOutcome { targets, affected, done })))
        };
        if consent.dry_run {
            return outcome(false);
        }
        if consent.choice.is_none() && !affected.is_nobody() {
            return Err(Refusal::AffectsOthers { action, affected: Box::new(affected) });
        }
        let drain = Drain {
            by,
            at_deadline: consent.choice.unwrap_or_default(),
            reason: Arc::clone(reason),
            who: Arc::clone(&caller.owner.user),
            since: self.now,
        };
        self.change_targets(targets, |node, device| {
            match device.and_then(|device| find_device(node, device)) {
                Some(uuid) => drop(node.device_drains.insert(uuid, drain.clone())),
                None => node.drain = Some(drain.clone()),
            }
        });
        outcome(true)
    }

    pub(crate) fn undrain(
        &mut self,
        caller: &Caller,
        targets: &[DrainTarget],
    ) -> Result<Reply, Refusal> {
        admin(caller, || format!("undrain {}", words(targets)))?;
        self.check_targets(targets)?;
        for target in targets {
            let node = &self.world.node(&target.node).expect("checked above").node;
            let is_drained = match &target.device {
                Some(device) => {
                    let uuid = find_device(node, device).expect("checked above");
                    node.device_drains.contains_key(&uuid)
                }
                None => node.drains().next().is_some(),
            };
            if !is_drained {
                return Err(Refusal::NotDrained { what: word(target) });
            }
        }
        self.change_targets(targets, |node, device| {
            match device.and_then(|device| find_device(node, device)) {
                Some(uuid) => drop(node.device_drains.remove(&uuid)),
                None => {
                    node.drain = None;
                    node.device_drains.clear();
                }
            }
        });
        Ok(Reply::Done)
    }

    fn affected_by_drain(&self, targets: &[DrainTarget], by: Option<Timestamp>) -> Affected {
        let what = drained(&self.world, targets);
        let nobody = |_: &JobSpec| false;
        let clearing = Clearing { what: &what, by, closes: self.now, admits: &nobody };
        clearing.affected(&Snapshot { world: &self.world, now: self.now })
    }

    fn check_targets(&self, targets: &[DrainTarget]) -> Result<(), Refusal> {
        if targets.is_empty() {
            let why = "it is empty; write, for example, lab2 or lab2:0,1".to_owned();
            return Err(Refusal::Invalid { field: "targets".to_owned(), why });
        }
        for DrainTarget { node, device } in targets {
            let row = self.world.node(node);
            let row = row.ok_or_else(|| Refusal::NoSuchNode { name: node.clone() })?;
            if let Some(device) = device
                && find_device(&row.node, device).is_none()
            {
                return Err(crate::control::nodes::no_such_device(&row.node, device));
            }
        }
        Ok(())
    }

    fn change_targets(
        &mut self,
        targets: &[DrainTarget],
        change: impl Fn(&mut Node, Option<&String>),
    ) {
        for target in targets {
            let before = &self.world.node(&target.node).expect("targets were checked").node;
            let mut node = before.clone();
            change(&mut node, target.device.as_ref());
            if node != *before {
                let name: NodeName = node.name.clone();
                self.world.put_node(node);
                self.publish(Change::NodeChanged { node: name });
            }
        }
    }
}

/// The drained targets, in words: `lab2, GPU 3 of lab1`.
fn words(targets: &[DrainTarget]) -> String {
    targets.iter().map(word).collect::<Vec<_>>().join(", ")
}

fn word(target: &DrainTarget) -> String {
    match &target.device {
        Some(device) => format!("GPU {} of {}", short(device), target.node),
        None => target.node.to_string(),
    }
}

fn short(device: &str) -> String {
    device.chars().take(80).collect()
}
