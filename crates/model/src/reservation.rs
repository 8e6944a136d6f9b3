//! Reservations and maintenance windows: devices and nodes that are set aside for a time. This
//! module answers the questions that need only reservations: which of them is active, covers a
//! device, admits a job, or clashes with another. The choice of devices is elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::displace::Displace;
use crate::gpu::GpuRequest;
use crate::id::{DeviceUuid, JobId, NodeName, ProjectName, ReservationName};
use crate::job::JobSpec;
use crate::plan::Shape;
use crate::unit::{Millis, Timestamp};

/// Devices or whole nodes that are set aside for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its name, unique among reservations that have not ended.
    pub name: ReservationName,
    /// The beneficiary.
    #[serde(rename = "whom")]
    pub beneficiary: Beneficiary,
    /// The devices and nodes.
    pub what: Reserved,
    /// The time; for a recurring one, its first occurrence.
    pub window: Window,
    /// The period of a recurring one, until it is cancelled: a fixed span of UTC, not affected by
    /// daylight saving time. `None` means once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
    /// What happens to jobs of others that still run at its beginning.
    pub at_begin: Displace,
    /// The reason, for people; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reason: Arc<str>,
    /// The admin that created it.
    pub made_by: Arc<str>,
    /// When it was created.
    pub made_at: Timestamp,
}

/// The devices and nodes that a reservation covers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reserved {
    /// Single devices by node. The other devices of the node are not reserved.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<NodeName, BTreeSet<DeviceUuid>>,
    /// Whole nodes: no job of others starts there, with or without GPUs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<NodeName>,
    /// The request that the devices were chosen for. If one of them becomes unusable, the devices
    /// are chosen again. `None` if devices or nodes were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<DeviceRequest>,
}

/// A request for a number of devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRequest {
    /// The number and kind of devices.
    pub gpus: GpuRequest,
    /// Whether they may be on several nodes; otherwise all are on one node.
    pub spread: bool,
}

/// The beneficiary of a reservation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beneficiary {
    /// No job: a maintenance window.
    Nobody,
    /// The jobs of one user.
    User {
        /// The user ID, which decides.
        uid: u32,
        /// The user name, for people.
        name: Arc<str>,
    },
    /// The jobs of one project.
    Project {
        /// The name.
        name: ProjectName,
    },
    /// One job. The reservation ends when the job ends.
    Job {
        /// The job.
        id: JobId,
    },
}

/// A time span, which may have no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// Its first moment.
    pub from: Timestamp,
    /// The first moment after it; `None` means that an admin ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Beneficiary {
    /// Whether jobs of a shape may use the reservation.
    #[must_use]
    pub fn admits(&self, shape: &Shape) -> bool {
        match self {
            Self::Nobody => false,
            Self::User { uid, .. } => shape.uid == Some(*uid),
            Self::Project { name } => shape.project == *name,
            Self::Job { id } => shape.reserved_as == Some(*id),
        }
    }

    /// Whether the reservation is for a job, in any state.
    #[must_use]
    pub fn is_for(&self, spec: &JobSpec) -> bool {
        match self {
            Self::Nobody => false,
            Self::User { uid, .. } => spec.owner.uid == *uid,
            Self::Project { name } => spec.project == *name,
            Self::Job { id } => spec.id == *id,
        }
    }

    /// The beneficiary as text: `bob`, `project red`, `job 7`. `None` for a maintenance window.
    #[must_use]
    pub fn text(&self) -> Option<Arc<str>> {
        match self {
            Self::Nobody => None,
            Self::User { name, .. } => Some(Arc::clone(name)),
            Self::Project { name } => Some(format!("project {name}").into()),
            Self::Job { id } => Some(format!("job {id}").into()),
        }
    }

    /// Whether it is the same beneficiary, ignoring names that are only for people.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User { uid, .. }, Self::User { uid: other, .. }) => uid == other,
            (one, other) => one == other,
        }
    }
}

impl Window {
    /// Returns the window of that length; without a length it has no end.
    #[must_use]
    pub fn lasting(from: Timestamp, length: Option<Millis>) -> Self {
        Self { from, until: length.map(|length| from.after(length)) }
    }

    /// Whether it contains a moment.
    #[must_use]
    pub fn holds(self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }

    /// Whether two windows overlap.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.until.is_none_or(|until| other.from < until)
            && other.until.is_none_or(|until| self.from < until)
    }

    /// Its length, if it ends.
    #[must_use]
    pub fn length(self) -> Option<Millis> {
        self.until.map(|until| until.since(self.from))
    }

    fn later_by(self, span: Millis) -> Self {
        Self { from: self.from.after(span), until: self.until.map(|until| until.after(span)) }
    }
}

impl Reserved {
    /// Whether it covers a device, by itself or with its node.
    #[must_use]
    pub fn has_device(&self, node: &NodeName, device: &DeviceUuid) -> bool {
        self.has_node(node) || self.devices.get(node).is_some_and(|here| here.contains(device))
    }

    /// Whether it covers a whole node.
    #[must_use]
    pub fn has_node(&self, node: &NodeName) -> bool {
        self.nodes.contains(node)
    }

    /// Whether it covers any part of a node.
    #[must_use]
    pub fn touches(&self, node: &NodeName) -> bool {
        self.has_node(node) || self.devices.contains_key(node)
    }

    /// A node where both overlap, with a device that both cover; no device if one of them covers
    /// the whole node.
    #[must_use]
    pub fn common<'a>(&'a self, other: &'a Self) -> Option<(&'a NodeName, Option<&'a DeviceUuid>)> {
        if let Some(node) = self.nodes.iter().find(|node| other.touches(node)) {
            return Some((node, None));
        }
        self.devices.iter().find_map(|(node, here)| {
            if other.has_node(node) {
                return Some((node, here.first()));
            }
            let there = other.devices.get(node)?;
            here.intersection(there).next().map(|device| (node, Some(device)))
        })
    }

    /// Whether it covers nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.devices.is_empty()
    }
}

impl Reservation {
    /// Whether it is a maintenance window.
    #[must_use]
    pub fn is_maintenance(&self) -> bool {
        self.beneficiary == Beneficiary::Nobody
    }

    /// The window that is active at a moment, or else the next one; `None` after the last.
    #[must_use]
    pub fn occurrence(&self, at: Timestamp) -> Option<Window> {
        let Some(until) = self.window.until else {
            return Some(self.window);
        };
        if at < until {
            return Some(self.window);
        }
        let every = self.every.filter(|every| every.get() > 0)?;
        // The first occurrence that has not ended: its end is the first after `at`.
        let n_past = at.since(until).get() / every.get() + 1;
        Some(self.window.later_by(Millis::new(n_past.saturating_mul(every.get()))))
    }

    /// Whether it is active at a moment.
    #[must_use]
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.occurrence(at).is_some_and(|window| window.holds(at))
    }

    /// Whether it has ended for good.
    #[must_use]
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.occurrence(at).is_none()
    }

    /// The next time after `at` when it begins or ends.
    #[must_use]
    pub fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let window = self.occurrence(at)?;
        if at < window.from { Some(window.from) } else { window.until }
    }

    /// Whether two reservations are ever active at the same time, recurring ones included.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        match (self.every, other.every) {
            (None, None) => self.window.meets(other.window),
            (Some(every), None) => series_meets(self.window, every, other.window),
            (None, Some(every)) => series_meets(other.window, every, self.window),
            (Some(one), Some(two)) => two_series_meet((self.window, one), (other.window, two)),
        }
    }

    /// Whether both cover the same device at the same time for different beneficiaries.
    #[must_use]
    pub fn clashes(&self, other: &Self) -> bool {
        !self.beneficiary.is_same(&other.beneficiary)
            && self.what.common(&other.what).is_some()
            && self.meets(other)
    }
}

/// Whether a series that begins with `first` ever overlaps a single window.
fn series_meets(first: Window, every: Millis, single: Window) -> bool {
    let series_until = first.until.unwrap_or(first.from);
    if every.get() == 0 {
        return first.meets(single);
    }
    // The first of the series that has not ended when the single window begins.
    let n_past = match single.from.get().checked_sub(series_until.get()) {
        None => 0,
        Some(past) => past / every.get() + 1,
    };
    let next = first.later_by(Millis::new(n_past.saturating_mul(every.get())));
    next.meets(single)
}

/// Whether two series ever overlap. Far enough from their starts, the distance between a start of
/// one and a start of the other takes exactly the values that equal the first distance modulo the
/// greatest common divisor of the periods.
fn two_series_meet(one: (Window, Millis), other: (Window, Millis)) -> bool {
    let length = |window: Window| window.length().unwrap_or(Millis::ZERO).get();
    let divisor = greatest_common_divisor(one.1.get(), other.1.get());
    if divisor == 0 {
        return one.0.meets(other.0);
    }
    let distance = i128::from(one.0.from.get()) - i128::from(other.0.from.get());
    let rest = distance.rem_euclid(i128::from(divisor));
    // The distances from the last start of the other series and to its next start.
    rest < i128::from(length(other.0)) || i128::from(divisor) - rest < i128::from(length(one.0))
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
