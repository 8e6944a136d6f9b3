//! Memory limits of tasks that the driver applies.

use std::io;

use gpool_model::agent::{LoanIs, LoanReport};
use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::Bytes;

use super::{Asker, LOOK};
use crate::input::{LoanAction, Move, ThreadInput};
use gpool_shepherd::layout::claim_name;

impl Asker {
    /// Limits the memory of a task where the driver can do that. Before it starts, its control
    /// group must exist, and nothing in it may have used the device.
    pub(super) fn limit(
        &mut self,
        task: TaskId,
        limits: &[(DeviceUuid, Bytes)],
    ) -> Result<(), String> {
        let (Ok(groups), Some(monitor)) = (&self.about.groups, &mut self.monitor) else {
            return Ok(());
        };
        let group = groups.join(claim_name(task));
        for (uuid, limit) in limits {
            if !self.limits.get(uuid).is_some_and(Result::is_ok) {
                continue;
            }
            match std::fs::create_dir(&group) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("can't create {}: {error}", group.display()));
                }
                _ => {}
            }
            monitor
                .limit_memory(uuid, &group, Some(*limit), LOOK)
                .map_err(|error| format!("can't limit its memory on {uuid}: {error}"))?;
        }
        Ok(())
    }

    /// Changes the limits of a task that runs. If that fails, the earlier ones stay.
    pub(super) fn limit_again(&mut self, task: TaskId, limits: &[(DeviceUuid, Bytes)]) {
        if let Err(why) = self.limit(task, limits) {
            let device = limits[0].0.clone();
            let report = LoanReport { task, device, is: LoanIs::NotLimited { why } };
            self.inputs.send(ThreadInput::LoanAction(LoanAction::Report(report)));
        }
    }

    /// Limits a paused task on its new devices, before its memory comes there.
    pub(super) fn limit_moved(&mut self, moved: Move) {
        let (task, limits) = (moved.task, &moved.limits);
        let (from, to) = (moved.from.iter(), &moved.to);
        let left: Vec<DeviceUuid> = from.filter(|it| !to.contains(it)).cloned().collect();
        if moved.then.is_some() {
            let refused = self.limit(task, limits).err();
            let is_refused = refused.is_some();
            self.inputs.send(ThreadInput::Limited(Box::new(moved), refused));
            // Then it stays on the devices that it had.
            if is_refused {
                return;
            }
        } else {
            self.limit_again(task, limits);
        }
        let (Ok(groups), Some(monitor)) = (&self.about.groups, &mut self.monitor) else { return };
        let group = groups.join(claim_name(task));
        for uuid in left.iter().filter(|it| self.limits.get(*it).is_some_and(Result::is_ok)) {
            // A limit that stays does no harm: the task has no memory there.
            let _ = monitor.limit_memory(uuid, &group, None, LOOK);
        }
    }

    /// Tries to remove a limit of the agent's own folder, which has none.
    pub(super) fn probe_limits(&mut self) {
        let Some(monitor) = &mut self.monitor else { return };
        for device in self.devices.iter().filter(|device| device.instance.is_none()) {
            let probed = match &self.about.groups {
                Ok(groups) => monitor
                    .limit_memory(&device.uuid, groups, None, LOOK)
                    .map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            self.limits.insert(device.uuid.clone(), probed);
        }
    }
}
