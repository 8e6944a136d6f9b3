//! Reservations and maintenance windows: created, changed and removed by admins.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::effect::Change;
use gpool_model::{
    Beneficiary, Caller, Consent, Millis, NewReservation, NodeName, Refusal, Reply, Reservation,
    ReservationName, ReservationPatch, ReserveAsk, ReserveEnd, ReserveOutcome, ReserveWhen,
    Reserved, Timestamp, Window,
};
use gpool_world::Snapshot;

use crate::affected;
use crate::choose::{ReservedDevices, choose};
use crate::control::Control;
use crate::control::nodes::{admin, find_device, no_such_device};

impl Control {
    /// The largest number of reservations, so that a cycle stays cheap.
    const RESERVATIONS_MAX: usize = 1000;
    /// A begin that is at most this far in the past counts as now: the request took time to arrive.
    const LATE_MAX: Millis = Millis::from_mins(1);
    /// The furthest future that a reservation may begin in.
    const AHEAD_MAX: Millis = Millis::from_hours(10 * 366 * 24);

    pub(crate) fn reserve(
        &mut self,
        caller: &Caller,
        new: NewReservation,
        consent: Consent,
    ) -> Result<Reply, Refusal> {
        admin(caller, || "reserve GPUs or nodes".to_owned())?;
        checked_reason(&new.reason, false)?;
        let name = self.name_for(&new)?;
        let most = Self::RESERVATIONS_MAX;
        if self.world.reservations().len() >= most {
            return Err(Refusal::TooManyReservations { most: most as u64 });
        }
        let draft = Reservation {
            name,
            what: Reserved::default(),
            window: self.window(new.when, None)?,
            every: new.when.every,
            beneficiary: new.beneficiary,
            at_begin: consent.choice.unwrap_or_default(),
            reason: new.reason,
            made_by: Arc::clone(&caller.owner.user),
            made_at: self.now,
        };
        self.decide("reserve", draft, Some(new.ask), consent)
    }

    pub(crate) fn edit_reservation(
        &mut self,
        caller: &Caller,
        name: &ReservationName,
        patch: ReservationPatch,
        consent: Consent,
    ) -> Result<Reply, Refusal> {
        admin(caller, || format!("change reservation {name}"))?;
        let before = self.reservation(name)?.clone();
        let length = before.window.length();
        let when = ReserveWhen {
            from: patch.from,
            // The window moves as a whole unless the patch sets another end.
            end: patch.end.or(length.map(ReserveEnd::After)),
            every: patch.every.or(before.every).filter(|every| !every.is_zero()),
        };
        let touches_nobody = patch.beneficiary.is_none()
            && patch.ask.is_none()
            && patch.from.is_none()
            && patch.end.is_none()
            && patch.every.is_none();
        let is_moved = patch.from.is_some() || patch.end.is_some() || patch.every.is_some();
        let draft = Reservation {
            window: match is_moved {
                true => self.window(when, Some(before.window.from))?,
                false => before.window,
            },
            every: when.every,
            beneficiary: patch.beneficiary.unwrap_or(before.beneficiary),
            reason: patch.reason.unwrap_or(before.reason),
            at_begin: consent.choice.unwrap_or(before.at_begin),
            ..before
        };
        checked_reason(&draft.reason, false)?;
        // A choice that was made before needs no new consent.
        let choice = consent.choice.or(touches_nobody.then_some(draft.at_begin));
        let consent = Consent { choice, ..consent };
        self.decide("change the reservation", draft, patch.ask, consent)
    }

    pub(crate) fn unreserve(
        &mut self,
        caller: &Caller,
        names: &[ReservationName],
    ) -> Result<Reply, Refusal> {
        admin(caller, || "cancel reservations".to_owned())?;
        for name in names {
            self.reservation(name)?;
        }
        for name in names {
            self.world.remove_reservation(name);
            self.publish(Change::ReservationChanged { reservation: name.clone() });
        }
        Ok(Reply::Done)
    }

    /// Chooses the devices, checks for clashes and affected jobs, and makes the reservation if the
    /// caller consents.
    fn decide(
        &mut self,
        verb: &str,
        mut draft: Reservation,
        ask: Option<ReserveAsk>,
        consent: Consent,
    ) -> Result<Reply, Refusal> {
        self.check_beneficiary(&draft.beneficiary)?;
        // A reservation for one element is for its whole array.
        if let Beneficiary::Job { id } = &mut draft.beneficiary {
            id.element = None;
        }
        if let Some(ask) = ask {
            draft.what = self.what(&draft, ask)?;
        }
        self.check_clash(&draft)?;
        self.world.advance(self.now);
        let snapshot = Snapshot { world: &self.world, now: self.now };
        let affected = affected::of_reservation(&snapshot, &draft);
        let done = !consent.dry_run;
        if done && consent.choice.is_none() && !affected.is_nobody() {
            let action = format!("{verb} {}", draft.name);
            return Err(Refusal::AffectsOthers { action, affected: Box::new(affected) });
        }
        if done {
            self.world.put_reservation(draft.clone());
            self.publish(Change::ReservationChanged { reservation: draft.name.clone() });
        }
        Ok(Reply::Reserved(Box::new(ReserveOutcome { reservation: draft, affected, done })))
    }

    fn reservation(&self, name: &ReservationName) -> Result<&Reservation, Refusal> {
        self.world.reservations().get(name).ok_or_else(|| Refusal::NoSuchReservation {
            name: name.clone(),
            names: self.world.reservations().keys().take(20).cloned().collect(),
        })
    }

    fn name_for(&self, new: &NewReservation) -> Result<ReservationName, Refusal> {
        let taken = self.world.reservations();
        let Some(name) = &new.name else {
            let letter = if new.beneficiary == Beneficiary::Nobody { 'm' } else { 'r' };
            let names = (1u64..).map(|number| ReservationName::new(format!("{letter}{number}")));
            let mut free = names.filter(|name| !taken.contains_key(name));
            return Ok(free.next().expect("there are more numbers than reservations"));
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let text = name.as_str();
        if text.is_empty() || text.len() > 64 || !text.chars().all(is_plain) {
            let why = "a name has 1 to 64 letters, digits, dots, dashes or underscores".to_owned();
            return Err(Refusal::Invalid { field: "name".to_owned(), why });
        }
        match taken.contains_key(name) {
            true => Err(Refusal::ReservationExists { name: name.clone() }),
            false => Ok(name.clone()),
        }
    }

    /// Computes the window; `began` is the begin of a reservation that is being changed.
    fn window(&self, when: ReserveWhen, began: Option<Timestamp>) -> Result<Window, Refusal> {
        let invalid = |field: &str, why: &str| {
            Err(Refusal::Invalid { field: field.to_owned(), why: why.to_owned() })
        };
        let from = match when.from {
            None => began.unwrap_or(self.now),
            Some(from) if from.after(Self::LATE_MAX) < self.now => {
                return invalid("from", "it is in the past; leave it out to start now");
            }
            Some(from) => from.max(self.now),
        };
        let until = when.end.map(|end| match end {
            ReserveEnd::At(until) => until,
            ReserveEnd::After(length) => from.after(length),
        });
        let latest = self.now.after(Self::AHEAD_MAX);
        if from > latest || until.is_some_and(|until| until > latest) {
            return invalid("from", "it is more than ten years away");
        }
        match (until, when.every) {
            (Some(until), _) if until <= from => {
                invalid("until", "the end is before the start; give a later end, or --for 4h")
            }
            (Some(until), None) if until <= self.now => invalid("until", "it is in the past"),
            (None, Some(_)) => {
                invalid("every", "a recurring reservation needs an end: add --for 4h, or --until")
            }
            (Some(until), Some(every)) if every < until.since(from) => invalid(
                "every",
                "each occurrence must end before the next one begins; make it shorter",
            ),
            (until, _) => Ok(Window { from, until }),
        }
    }

    fn check_beneficiary(&self, whom: &Beneficiary) -> Result<(), Refusal> {
        match whom {
            Beneficiary::Project { name } if !self.world.projects().contains_key(name) => {
                Err(Refusal::NoSuchProject {
                    name: name.clone(),
                    projects: self.world.projects().keys().cloned().collect(),
                })
            }
            Beneficiary::Job { id } if self.world.job(*id).is_none() => {
                Err(match self.world.recent_end(*id) {
                    Some(outcome) => Refusal::AlreadyEnded { id: *id, state: outcome.state() },
                    None => Refusal::NoSuchJob { id: *id },
                })
            }
            Beneficiary::Nobody
            | Beneficiary::User { .. }
            | Beneficiary::Project { .. }
            | Beneficiary::Job { .. } => Ok(()),
        }
    }

    /// Returns the requested devices and nodes.
    fn what(&self, draft: &Reservation, ask: ReserveAsk) -> Result<Reserved, Refusal> {
        let empty = |field: &str| Refusal::Invalid {
            field: field.to_owned(),
            why: "it has no GPUs or nodes to reserve".to_owned(),
        };
        let known = |name: &NodeName| {
            let row = self.world.node(name);
            row.ok_or_else(|| Refusal::NoSuchNode { name: name.clone() })
        };
        match ask {
            ReserveAsk::Counted(counted) => {
                if counted.gpus.is_none() {
                    return Err(empty("gpus"));
                }
                let none = ReservedDevices::new();
                let chosen = choose(&self.world, self.now, draft, &counted, &none);
                let devices = chosen.map_err(|most| Refusal::NotEnoughToReserve {
                    asked: counted.gpus.clone(),
                    spread: counted.spread,
                    most,
                })?;
                Ok(Reserved { devices, counted: Some(counted), nodes: BTreeSet::new() })
            }
            ReserveAsk::Devices { devices } => {
                let mut what = Reserved::default();
                for named in &devices {
                    let row = known(&named.node)?;
                    let found = find_device(&row.node, &named.device);
                    let uuid = found.ok_or_else(|| no_such_device(&row.node, &named.device))?;
                    what.devices.entry(named.node.clone()).or_default().insert(uuid);
                }
                if what.is_empty() { Err(empty("devices")) } else { Ok(what) }
            }
            ReserveAsk::Nodes { nodes } => {
                nodes.iter().try_for_each(|name| known(name).map(drop))?;
                let what = Reserved { nodes, ..Reserved::default() };
                if what.is_empty() { Err(empty("nodes")) } else { Ok(what) }
            }
            ReserveAsk::AllNodes => {
                let nodes = self.world.nodes_by_name().map(|(_, row)| row.node.name.clone());
                let what = Reserved { nodes: nodes.collect(), ..Reserved::default() };
                if what.is_empty() { Err(empty("nodes")) } else { Ok(what) }
            }
        }
    }

    fn check_clash(&self, draft: &Reservation) -> Result<(), Refusal> {
        let others = self.world.reservations().values().filter(|it| it.name != draft.name);
        for other in others.filter(|other| draft.clashes(other)) {
            let Some((node, device)) = draft.what.common(&other.what) else { continue };
            let row = self.world.node(node);
            let index = device.and_then(|uuid| {
                let mut devices = row?.node.devices.iter();
                devices.find(|device| device.uuid == *uuid).map(|device| device.index)
            });
            let window = other.occurrence(self.now).unwrap_or(other.window);
            return Err(Refusal::ReservationClash {
                other: other.name.clone(),
                beneficiary: other.beneficiary.clone(),
                node: node.clone(),
                index,
                from: window.from,
                until: window.until,
            });
        }
        Ok(())
    }
}

/// Checks that a reason is one short line.
pub(crate) fn checked_reason(reason: &str, is_needed: bool) -> Result<(), Refusal> {
    let why = match reason.trim() {
        "" if is_needed => "give a reason for the users of waiting jobs: --reason 'new PSU'",
        _ if reason.len() > 500 => "it is longer than 500 bytes",
        _ if reason.chars().any(char::is_control) => {
            "it must be one line without control characters"
        }
        _ => return Ok(()),
    };
    Err(Refusal::Invalid { field: "reason".to_owned(), why: why.to_owned() })
}
