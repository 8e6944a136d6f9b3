//! Xids that devices report while jobs have them.

use std::collections::BTreeSet;

use gpool_model::device::Device;
use gpool_model::event::Upkeep;
use gpool_model::xid::JobXid;
use gpool_model::{Allocation, JobId, Node, NodeName, Phase};

use crate::control::Control;

impl Control {
    /// Compares the Xids of a node with those of its last report, and counts new ones for the jobs
    /// on the device. The agent reports the Xids of a failed task before its end.
    pub(crate) fn xids_changed(&mut self, name: &NodeName, before: &[Device]) {
        let Some(row) = self.world.node(name) else { return };
        let node = &row.node;
        let mut new = Vec::new();
        for device in &node.devices {
            let last = before.iter().find(|it| it.uuid == device.uuid);
            for (xid, count) in &device.xids {
                let last = last.and_then(|it| it.xids.get(xid)).copied().unwrap_or(0);
                // A restarted agent counts from 0.
                let count = count.checked_sub(last).unwrap_or(*count);
                if count == 0 {
                    continue;
                }
                let seen = JobXid { node: name.clone(), device: device.index, xid: *xid, count };
                let jobs = self.jobs_on(node, device).into_iter();
                new.extend(jobs.map(|job| (job, seen.clone())));
            }
        }
        for (id, seen) in new {
            let mut job = self.job(id);
            job.course.count_xid(&seen);
            self.put_job(job);
            self.unsaid.push(Upkeep::Xid { job: id, seen });
        }
    }

    /// The jobs with a task on a device, or on an instance of it.
    fn jobs_on(&self, node: &Node, device: &Device) -> BTreeSet<JobId> {
        let is_on = |held: &Allocation| {
            let mut places = held.slots.iter().filter_map(|slot| {
                let booked = || node.devices.iter().find(|it| it.uuid == slot.device);
                node.guest_place(held.task, &slot.device).or_else(booked)
            });
            held.node == node.name && places.any(|it| it.gpu_index() == device.gpu_index())
        };
        let has_it = |phase: &Phase| {
            !matches!(phase, Phase::Paused { .. }) && phase.allocations().iter().any(is_on)
        };
        self.world.holding().filter(|row| has_it(&row.job.phase)).map(|row| row.job.id).collect()
    }
}
