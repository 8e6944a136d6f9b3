//! The lines with guests, read and written: `guest a lab1[1]` puts the share of job a, which booked
//! another device of the node, on that one.

use std::fmt;

use gpool_model::device::Guest;
use gpool_model::{DeviceUuid, Node, TaskId};

use crate::nodes::numbers;
use crate::reader::Reader;
use crate::words::{ScenarioError, Words};

impl Reader {
    /// Reads the words after `guest`.
    pub fn guest(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let name = words.need("the name of a job")?;
        let unknown = || words.error(format!("no job {name} with a device stands above"));
        let (task, booked) = self.booked_by(name).ok_or_else(unknown)?;
        let (node, positions) = self.devices_of(words)?;
        for position in positions {
            let device = &mut self.situation.nodes[node].devices[position];
            device.guests.push(Guest { task, booked: booked.clone(), is_stuck: false });
        }
        words.end()
    }

    /// The first task of a job, and its first device.
    fn booked_by(&self, name: &str) -> Option<(TaskId, DeviceUuid)> {
        let id = self.ids.get(name)?;
        let (_, job) = self.situation.jobs.iter().find(|(_, job)| job.id == *id)?;
        let first = job.phase.allocations().first()?;
        Some((first.task, first.slots.first()?.device.clone()))
    }
}

/// Writes the guests of all nodes.
pub(crate) fn guests(f: &mut fmt::Formatter<'_>, nodes: &[Node]) -> fmt::Result {
    for node in nodes {
        for (device, number) in node.devices.iter().zip(numbers(node)) {
            for guest in device.guests.iter().filter(|guest| !guest.is_stuck) {
                writeln!(f, "guest j{} {}[{number}]", guest.task.job, node.name)?;
            }
        }
    }
    Ok(())
}
