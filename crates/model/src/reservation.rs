//! Devices and nodes that are kept for somebody, or for nobody, for a time: reservations and
//! maintenance windows. Here is all that follows from a reservation alone, when it holds, what it
//! covers, whom it admits, whether two of them clash; which devices it gets is decided elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::displace::Displace;
use crate::gpu::GpuRequest;
use crate::id::{DeviceUuid, JobId, NodeName, ProjectName, ReservationName};
use crate::job::JobSpec;
use crate::plan::Shape;
use crate::unit::{Millis, Timestamp};

/// Devices or whole nodes that are kept for somebody for a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its name, unique among those that are not over.
    pub name: ReservationName,
    /// For whom.
    pub whom: Whom,
    /// What.
    pub what: Reserved,
    /// When; of a recurring one, the first time.
    pub window: Window,
    /// After how long it recurs, until it is cancelled: a fixed span of UTC, which no change of
    /// a clock shifts. `None` means once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Millis>,
    /// What becomes of work of others that still runs on it when it begins.
    pub at_begin: Displace,
    /// Why, for people; may be empty.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub reason: Arc<str>,
    /// The admin who made it.
    pub made_by: Arc<str>,
    /// When it was made.
    pub made_at: Timestamp,
}

/// What a reservation covers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reserved {
    /// Single devices by node. The rest of such a node is for everybody.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub devices: BTreeMap<NodeName, BTreeSet<DeviceUuid>>,
    /// Whole nodes, so that no work of others starts there, with or without GPUs.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<NodeName>,
    /// The request by which the devices were chosen. They are chosen anew when one of them turns
    /// out to be of no use; `None` where devices or nodes were named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
}

/// Devices by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// How many of which kind.
    pub gpus: GpuRequest,
    /// Wherever they are; otherwise all on one node.
    pub spread: bool,
}

/// For whom devices are kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Whom {
    /// Nobody: a maintenance window.
    Nobody,
    /// The jobs of one user.
    User {
        /// By this.
        uid: u32,
        /// For people.
        name: Arc<str>,
    },
    /// The jobs of one project.
    Project {
        /// Which.
        name: ProjectName,
    },
    /// One job. The reservation ends with it.
    Job {
        /// Which.
        id: JobId,
    },
}

/// From a moment on, until another or for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The first moment in it.
    pub from: Timestamp,
    /// The first moment after it; `None` means that it is ended by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Whom {
    /// Whether a job may use what is kept, by its shape.
    #[must_use]
    pub fn admits(&self, shape: &Shape) -> bool {
        match self {
            Self::Nobody => false,
            Self::User { uid, .. } => shape.uid == Some(*uid),
            Self::Project { name } => shape.project == *name,
            Self::Job { id } => shape.reserved_as == Some(*id),
        }
    }

    /// Whether a job may use what is kept, whatever it does now.
    #[must_use]
    pub fn is_for(&self, spec: &JobSpec) -> bool {
        match self {
            Self::Nobody => false,
            Self::User { uid, .. } => spec.owner.uid == *uid,
            Self::Project { name } => spec.project == *name,
            Self::Job { id } => spec.id == *id,
        }
    }

    /// Whether it is the same beneficiary, however it is written for people.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::User { uid, .. }, Self::User { uid: other, .. }) => uid == other,
            (one, other) => one == other,
        }
    }
}

impl Window {
    /// Whether a moment is in it.
    #[must_use]
    pub fn holds(self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }

    /// Whether two windows have a moment in common.
    #[must_use]
    pub fn meets(self, other: Self) -> bool {
        self.until.is_none_or(|until| other.from < until)
            && other.until.is_none_or(|until| self.from < until)
    }

    /// How long it is, if it ends.
    #[must_use]
    pub fn length(self) -> Option<Millis> {
        self.until.map(|until| until.since(self.from))
    }

    fn later_by(self, span: Millis) -> Self {
        Self { from: self.from.after(span), until: self.until.map(|until| until.after(span)) }
    }
}

impl Reserved {
    /// Whether a device is kept, by itself or with its node.
    #[must_use]
    pub fn has_device(&self, node: &NodeName, device: &DeviceUuid) -> bool {
        self.has_node(node) || self.devices.get(node).is_some_and(|here| here.contains(device))
    }

    /// Whether a whole node is kept.
    #[must_use]
    pub fn has_node(&self, node: &NodeName) -> bool {
        self.nodes.contains(node)
    }

    /// Whether anything of a node is kept.
    #[must_use]
    pub fn touches(&self, node: &NodeName) -> bool {
        self.has_node(node) || self.devices.contains_key(node)
    }

    /// A node of which both keep something, with a device that both keep; no device where one of
    /// them keeps the whole node.
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

    /// Whether it keeps nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.devices.is_empty()
    }
}

impl Reservation {
    /// Whether nobody may use what it keeps.
    #[must_use]
    pub fn is_maintenance(&self) -> bool {
        self.whom == Whom::Nobody
    }

    /// The window that holds at a moment, or else the next one; `None` once all are over.
    #[must_use]
    pub fn occurrence(&self, at: Timestamp) -> Option<Window> {
        let Some(until) = self.window.until else {
            return Some(self.window);
        };
        if at < until {
            return Some(self.window);
        }
        let every = self.every.filter(|every| every.get() > 0)?;
        // The first one that is not over: its end is the first after that moment.
        let n_past = at.since(until).get() / every.get() + 1;
        Some(self.window.later_by(Millis::new(n_past.saturating_mul(every.get()))))
    }

    /// Whether it holds at a moment.
    #[must_use]
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.occurrence(at).is_some_and(|window| window.holds(at))
    }

    /// Whether it is over for good.
    #[must_use]
    pub fn is_over(&self, at: Timestamp) -> bool {
        self.occurrence(at).is_none()
    }

    /// When it begins or ends next, after a moment.
    #[must_use]
    pub fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let window = self.occurrence(at)?;
        if at < window.from { Some(window.from) } else { window.until }
    }

    /// Whether two reservations hold at one moment, ever, recurring ones included.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        match (self.every, other.every) {
            (None, None) => self.window.meets(other.window),
            (Some(every), None) => series_meets(self.window, every, other.window),
            (None, Some(every)) => series_meets(other.window, every, self.window),
            (Some(one), Some(two)) => two_series_meet((self.window, one), (other.window, two)),
        }
    }

    /// Whether it keeps what another keeps for somebody else, at one moment.
    #[must_use]
    pub fn clashes(&self, other: &Self) -> bool {
        !self.whom.is_same(&other.whom)
            && self.what.common(&other.what).is_some()
            && self.meets(other)
    }
}

/// Whether a series, begun with `first`, ever meets one window.
fn series_meets(first: Window, every: Millis, single: Window) -> bool {
    let series_until = first.until.unwrap_or(first.from);
    if every.get() == 0 {
        return first.meets(single);
    }
    // The first of the series that is not over when the single one begins.
    let n_past = match single.from.get().checked_sub(series_until.get()) {
        None => 0,
        Some(past) => past / every.get() + 1,
    };
    let next = first.later_by(Millis::new(n_past.saturating_mul(every.get())));
    next.meets(single)
}

/// Whether two series ever meet. Far enough from their beginnings, the distance between a
/// beginning of one and a beginning of the other takes every value that equals the first distance
/// up to multiples of the greatest common divisor of both periods, and no other.
fn two_series_meet(one: (Window, Millis), other: (Window, Millis)) -> bool {
    let length = |window: Window| window.length().unwrap_or(Millis::ZERO).get();
    let divisor = greatest_common_divisor(one.1.get(), other.1.get());
    if divisor == 0 {
        return one.0.meets(other.0);
    }
    let distance = i128::from(one.0.from.get()) - i128::from(other.0.from.get());
    let rest = distance.rem_euclid(i128::from(divisor));
    // So long after a beginning of the other, or so long before one, does the one begin.
    rest < i128::from(length(other.0)) || i128::from(divisor) - rest < i128::from(length(one.0))
}

fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}
