//! Reservations, and the moments at which time alone changes something: a reservation begins or
//! ends, or a drain reaches its deadline.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::record::Record;
use gpool_model::{
    Beneficiary, JobId, Node, NodeName, ProjectName, Reservation, ReservationName, Timestamp,
};

use crate::ledger::NodeRow;
use crate::world::World;

/// Future moments, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alarms {
    /// When a reservation changes next, by its name.
    by_reservation: BTreeMap<ReservationName, Timestamp>,
    /// Deadlines of a node's drains that are still to come.
    by_node: BTreeMap<NodeName, BTreeSet<Timestamp>>,
    all: BTreeSet<(Timestamp, Alarm)>,
    /// The last moment that has passed.
    pub(crate) now: Timestamp,
}

/// The thing that a moment belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Reservation(ReservationName),
    Drain(NodeName),
}

impl Alarms {
    pub fn next(&self) -> Option<Timestamp> {
        self.all.first().map(|(at, _)| *at)
    }

    fn set_reservation(&mut self, name: &ReservationName, at: Option<Timestamp>) {
        if let Some(before) = self.by_reservation.remove(name) {
            self.all.remove(&(before, Alarm::Reservation(name.clone())));
        }
        if let Some(at) = at {
            self.by_reservation.insert(name.clone(), at);
            self.all.insert((at, Alarm::Reservation(name.clone())));
        }
    }

    fn set_drains(&mut self, node: &NodeName, deadlines: BTreeSet<Timestamp>) {
        for before in self.by_node.remove(node).into_iter().flatten() {
            self.all.remove(&(before, Alarm::Drain(node.clone())));
        }
        self.all.extend(deadlines.iter().map(|at| (*at, Alarm::Drain(node.clone()))));
        if !deadlines.is_empty() {
            self.by_node.insert(node.clone(), deadlines);
        }
    }
}

impl World {
    /// Every reservation and maintenance window, by name.
    #[must_use]
    pub fn reservations(&self) -> &BTreeMap<ReservationName, Reservation> {
        &self.reservations
    }

    /// Returns the job itself if a reservation is for it alone
    /// ([`gpool_model::Shape::reserved_as`]).
    #[must_use]
    pub fn reserved_as(&self, job: JobId) -> Option<JobId> {
        let own = Beneficiary::Job { id: job };
        self.reservations.values().any(|it| it.beneficiary == own).then_some(job)
    }

    /// Adds a reservation or replaces the one with its name.
    pub fn put_reservation(&mut self, reservation: Reservation) {
        let name = reservation.name.clone();
        self.mark(Record::Reservation(Box::new(reservation.clone())).key());
        // The next change after the last moment that has passed; later changes follow from it.
        self.alarms.set_reservation(&name, reservation.next_change(self.alarms.now));
        let whom = reservation.beneficiary.clone();
        let before = self.reservations.insert(name, reservation);
        self.index_again(&whom);
        if let Some(before) = before.filter(|before| before.beneficiary != whom) {
            self.index_again(&before.beneficiary);
        }
    }

    /// Removes a reservation; its capacity is free for all jobs.
    pub fn remove_reservation(&mut self, name: &ReservationName) -> Option<Reservation> {
        let removed = self.reservations.remove(name)?;
        self.mark(Record::Reservation(Box::new(removed.clone())).key());
        self.alarms.set_reservation(name, None);
        self.index_again(&removed.beneficiary);
        Some(removed)
    }

    /// Returns the user if the shape must name the user in this project
    /// ([`gpool_model::Shape::uid`]).
    pub(crate) fn told_apart(&self, uid: u32, project: &ProjectName) -> Option<u32> {
        let is_for =
            |whom: &Beneficiary| matches!(whom, Beneficiary::User { uid: of, .. } if *of == uid);
        let is_told = self.policy.tells_users_apart()
            || self.limits_slots()
            || self.capping(project).next().is_some()
            || self.reservations.values().any(|it| is_for(&it.beneficiary));
        is_told.then_some(uid)
    }

    /// Recomputes shapes: a shape depends on the reservations for the job and for its user.
    fn index_again(&mut self, whom: &Beneficiary) {
        let jobs: Vec<JobId> = match whom {
            Beneficiary::Job { id } => {
                // The elements of an array change with it.
                let elements = self.elements(id.number).map(|row| row.job.id);
                elements.filter(|_| id.element.is_none()).chain([*id]).collect()
            }
            Beneficiary::User { uid, .. } => {
                let own = |job: &JobId| self.jobs[job].spec.owner.uid == *uid;
                self.queue.jobs().filter(own).collect()
            }
            Beneficiary::Nobody | Beneficiary::Project { .. } => return,
        };
        let is_pending = |job: &JobId| self.place_of(*job).is_some();
        let pending: Vec<JobId> = jobs.into_iter().filter(is_pending).collect();
        self.queue_anew(&pending);
    }

    /// The nodes that are drained or have drained devices.
    pub fn drained(&self) -> impl Iterator<Item = &NodeRow> {
        self.drained.iter().filter_map(|name| self.node(name))
    }

    pub(crate) fn watch_drains(&mut self, node: &Node) {
        match node.drains().next() {
            Some(_) => drop(self.drained.insert(node.name.clone())),
            None => drop(self.drained.remove(&node.name)),
        }
        let deadlines = node.drains().filter_map(|drain| drain.by);
        let to_come = deadlines.filter(|by| *by > self.alarms.now).collect();
        self.alarms.set_drains(&node.name, to_come);
    }

    pub(crate) fn advance_alarms(&mut self, now: Timestamp) {
        self.alarms.now = self.alarms.now.max(now);
        while let Some((at, alarm)) = self.alarms.all.first().cloned()
            && at <= now
        {
            match alarm {
                Alarm::Reservation(name) => {
                    let next = self.reservations.get(&name).and_then(|it| it.next_change(now));
                    self.alarms.set_reservation(&name, next);
                }
                Alarm::Drain(name) => {
                    if let Some(row) = self.node(&name) {
                        let node = row.node.clone();
                        self.watch_drains(&node);
                    }
                    // A node watches only deadlines in the future.
                    self.alarms.all.remove(&(at, Alarm::Drain(name)));
                }
            }
        }
    }
}
