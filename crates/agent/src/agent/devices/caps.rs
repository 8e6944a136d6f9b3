//! Memory limits of tasks that the driver applies.

use std::io;

use gpool_model::id::{DeviceUuid, TaskId};
use gpool_model::unit::Bytes;

use super::{Asker, LOOK};
use crate::layout::claim_name;

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
