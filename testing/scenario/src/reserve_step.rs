//! Reservations as random steps.

use std::sync::Arc;

use gpool_model::{
    Beneficiary, Displace, Millis, ProjectName, Reservation, ReservationName, Reserved, Timestamp,
    Window,
};
use gpool_world::World;

/// The random parts of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReserveSeed {
    /// Selects a node.
    pub node: u32,
    /// Selects one of its devices; `None` is the whole node.
    pub device: Option<u32>,
    /// Selects the owner: none, the default user, another user, or another project.
    pub whom: u32,
    /// Time until it begins.
    pub later: Millis,
    /// Its length; `None` means until it is released.
    pub long: Option<Millis>,
    /// Whether it recurs.
    pub recurs: bool,
}

impl ReserveSeed {
    /// The reservation; `None` if there is nothing to reserve.
    pub(crate) fn reservation(&self, world: &World, now: Timestamp) -> Option<Reservation> {
        let nodes = world.nodes();
        let node = &nodes[usize::try_from(self.node).ok()?.checked_rem(nodes.len())?].node;
        let mut what = Reserved::default();
        let n_devices = node.devices.len();
        let device = self.device.and_then(|at| usize::try_from(at).ok()?.checked_rem(n_devices));
        match device {
            Some(at) => {
                let uuid = node.devices[at].uuid.clone();
                what.devices.entry(node.name.clone()).or_default().insert(uuid);
            }
            None => drop(what.nodes.insert(node.name.clone())),
        }
        let from = now.after(self.later);
        let long = self.long.filter(|long| !long.is_zero());
        // The period is twice the length.
        let every = long.filter(|_| self.recurs).map(|long| long.saturating_add(long));
        Some(Reservation {
            name: ReservationName::new(format!("r{}", world.n_changes())),
            beneficiary: match self.whom % 4 {
                0 => Beneficiary::Nobody,
                1 => Beneficiary::Project { name: ProjectName::new("nlp") },
                two_or_three => {
                    let uid = 998 + two_or_three;
                    Beneficiary::User { uid, name: Arc::from(format!("u{uid}")) }
                }
            },
            what,
            window: Window::lasting(from, long),
            every,
            at_begin: Displace::LetFinish,
            reason: Arc::from(""),
            made_by: Arc::from("root"),
            made_at: now,
        })
    }
}
