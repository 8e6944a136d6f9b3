//! Devices that reservations and maintenance windows keep from a waiting job.

use gpool_model::reservation::Window;
use gpool_model::{Device, Node, Reason, Reservation, Shape};
use gpool_world::{JobRow, Snapshot, fits_of};

use super::{Explainer, may_use};
use crate::capacity::reserved_for_others;

/// Why a waiting job may not have a device, used or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptBy<'a> {
    /// A reservation for others, or a maintenance window, with its time.
    Reservation(&'a Reservation, Window),
    /// The policy gives out reserved devices only, and this one is not reserved for the job.
    NotReserved,
}

impl<'a> Explainer<'a> {
    /// Returns why a waiting job may not have a device of a node: the first reservation that begins
    /// before the job would have ended.
    #[must_use]
    pub fn kept_by(&self, row: &JobRow, node: &Node, device: &Device) -> Option<KeptBy<'a>> {
        let Snapshot { world, now } = self.snapshot;
        let length = Shape::takes(row.spec.time_limit, row.spec.grace);
        let run = Window::lasting(now, length);
        let here = world.reservations().values();
        let here = here.filter(|by| by.what.has_device(&node.name, &device.uuid));
        let here = here.filter_map(|by| Some((by, by.occurrence(now)?)));
        let (own, others): (Vec<_>, Vec<_>) =
            here.partition(|(by, _)| by.beneficiary.is_for(&row.spec));
        let others = others.into_iter().filter(|(_, window)| window.meets(run));
        let first = others.min_by_key(|(by, window)| (window.from, &by.name));
        let is_own = own.iter().any(|(_, window)| window.holds(now));
        let is_closed = self.policy.reserved_only && !is_own;
        first
            .map(|(by, window)| KeptBy::Reservation(by, window))
            .or(is_closed.then_some(KeptBy::NotReserved))
    }

    /// The reservations that keep devices of the asked kind from a waiting job, node by node.
    pub(super) fn reserved_for_others(&self, row: &JobRow) -> Vec<Reason> {
        if self.snapshot.world.reservations().is_empty() {
            return Vec::new();
        }
        let nodes = self.snapshot.world.nodes_by_name().map(|(_, node)| &node.node);
        let fits = fits_of(row);
        let mut kept: Vec<(&Node, &Reservation, Window, u32)> = Vec::new();
        for node in nodes {
            for device in &node.devices {
                if !may_use(&fits, node, device) {
                    continue;
                }
                let Some(KeptBy::Reservation(by, window)) = self.kept_by(row, node, device) else {
                    continue;
                };
                let is_same = |it: &&mut (&Node, &Reservation, Window, u32)| {
                    it.0.name == node.name && it.1.name == by.name
                };
                match kept.iter_mut().find(is_same) {
                    Some((.., n_devices)) => *n_devices += 1,
                    None => kept.push((node, by, window, 1)),
                }
            }
        }
        let reason = |(node, by, window, n_devices): (&Node, &Reservation, Window, u32)| {
            reserved_for_others(by, window, &node.name, n_devices)
        };
        kept.into_iter().map(reason).take(Self::DEVICES_MAX).collect()
    }
}
