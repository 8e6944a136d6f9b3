//! Reservations, maintenance windows and drains among what admins wish, and what must hold of
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::reservation::DeviceRequest;
use gpool_model::{
    Attempt, Beneficiary, Command, Consent, DeviceRef, Displace, DrainTarget, GpuRequest, JobId,
    Millis, NewReservation, NodeName, Phase, Reply, ReservationName, ReserveAsk, ReserveEnd,
    ReserveWhen, Timestamp,
};
use gpool_world::{JobRow, World};

use crate::broken::Invariant;
use crate::happening::{Happening, Kind};
use crate::sim::taken::Claims;
use crate::sim::{Sim, picked};

/// A start, however often it is extended before the program runs.
type Started = (JobId, Attempt, Timestamp);

impl Sim {
    /// What an admin wishes to be kept or emptied, or no longer.
    pub(crate) fn keeping(&self, what: &Happening) -> Option<Command> {
        Some(match what.kind {
            Kind::Reserve => self.reserve(what)?,
            Kind::Unreserve => {
                let world = self.server.as_ref()?.control.world();
                let names: Vec<&ReservationName> = world.reservations().keys().collect();
                Command::Unreserve { names: vec![picked(&names, what.count("pick"))?.clone()] }
            }
            Kind::Drain => {
                let (node, device) = self.place(what)?;
                let hours = what.count("in").checked_sub(1);
                Command::Drain {
                    targets: vec![DrainTarget { node, device }],
                    by: hours.map(|hours| self.server_clock().after(hours_long(hours))),
                    reason: Arc::from("x"),
                    consent: consent(what.count("then")),
                }
            }
            Kind::Undrain => {
                let (node, _) = self.place(what)?;
                Command::Undrain { targets: vec![DrainTarget { node, device: None }] }
            }
            _ => return None,
        })
    }

    fn reserve(&self, what: &Happening) -> Option<Command> {
        let (node, device) = self.place(what)?;
        let ask = match (what.count("gpus"), device) {
            (0, Some(device)) => ReserveAsk::Devices { devices: vec![DeviceRef { node, device }] },
            (0, None) => ReserveAsk::Nodes { nodes: BTreeSet::from([node]) },
            (n, device) => {
                let gpus = GpuRequest::parse(&(n % 3 + 1).to_string()).ok()?;
                ReserveAsk::Counted(DeviceRequest { gpus, spread: device.is_some() })
            }
        };
        let user = what.count("user") % 8;
        let whom = match what.count("whom") % 4 {
            0 => Beneficiary::Nobody,
            1 => Beneficiary::Job { id: picked(&self.live_jobs(), what.count("user"))? },
            _ => {
                let uid = 1000 + u32::try_from(user).ok()?;
                Beneficiary::User { uid, name: Arc::from(format!("u{uid}")) }
            }
        };
        let long = what.count("long");
        let when = ReserveWhen {
            from: Some(self.server_clock().after(hours_long(what.count("in")))),
            end: (long > 0).then(|| ReserveEnd::After(hours_long(long))),
            every: Some(hours_long(what.count("every"))).filter(|every| !every.is_zero()),
        };
        let name = Some(ReservationName::new(format!("k{}", self.askings.len())));
        let reservation =
            Box::new(NewReservation { name, beneficiary: whom, ask, when, reason: Arc::from("") });
        Some(Command::Reserve { reservation, consent: consent(what.count("then")) })
    }

    /// A node, and one of its devices or none.
    fn place(&self, what: &Happening) -> Option<(NodeName, Option<String>)> {
        let all: Vec<usize> = (0..self.machines.len()).collect();
        let machine = &self.machines[picked(&all, what.count("node"))?];
        let has_device = what.kind != Kind::Undrain;
        let n = u64::try_from(machine.real.len()).ok()?;
        // One more than there are: the whole node.
        let device = has_device.then(|| what.count("device") % (n + 1)).filter(|at| *at < n);
        Some((machine.node.name.clone(), device.map(|device| device.to_string())))
    }

    /// Records a reservation without an end, once its creation was answered.
    pub(crate) fn note_kept(&mut self, command: &Command, reply: &Reply) {
        let (Command::Reserve { .. }, Reply::Reserved(outcome)) = (command, reply) else { return };
        let it = &outcome.reservation;
        if it.window.until.is_none() && !matches!(it.beneficiary, Beneficiary::Job { .. }) {
            self.watch.reserved.insert(it.name.clone());
        }
    }

    /// What an admin asked to end may be gone, answered or not.
    pub(crate) fn note_released(&mut self, command: &Command) {
        if let Command::Unreserve { names } = command {
            self.watch.released.extend(names.iter().cloned());
        }
    }

    /// Whether a reservation or drain may have ended the job: it was created with the choice to
    /// cancel running jobs.
    pub(crate) fn was_displaced(&self, by: &str) -> bool {
        let ends = |consent: &Consent| consent.choice == Some(Displace::Cancel);
        self.askings.iter().any(|asking| match &asking.command {
            Command::Reserve { reservation, consent } => {
                let name = reservation.name.as_ref();
                ends(consent) && name.is_some_and(|name| by.ends_with(&format!(" {name})")))
            }
            Command::Drain { consent, .. } => ends(consent) && by.contains(" (drain of "),
            _ => false,
        })
    }

    /// Checks that reservations without an end exist.
    pub(crate) fn check_kept(&mut self) {
        let Some(server) = self.server.as_ref().filter(|_| !self.store.is_broken) else { return };
        let world = server.control.world();
        let mut reserved = self.watch.reserved.difference(&self.watch.released);
        if let Some(name) = reserved.find(|name| !world.reservations().contains_key(*name)) {
            let what = format!("reservation {name} is gone, and no request released it");
            self.blame(Invariant::Undone, what);
        }
    }
}

/// Runs a scenario to the middle of its last step. Returns the number of jobs that start, and the
/// outsider that is found with these known before the step, and without.
#[must_use]
pub fn outsiders(scenario: &crate::Scenario) -> Option<(usize, [Option<String>; 2])> {
    let mut sim = Sim::new(&scenario.cluster, None);
    scenario.happenings.iter().for_each(|what| sim.happen(what));
    sim.take_inbox();
    let server = sim.server.as_ref()?;
    let (world, now) = (server.control.world(), server.life.clock());
    let before = starting(world);
    let find = |before: &BTreeSet<Started>| outsider(world, now, before, &Claims::new());
    Some((before.len(), [find(&before), find(&BTreeSet::new())]))
}

/// Returns the jobs that are starting: attempt of each job, and since when.
pub(crate) fn starting(world: &World) -> BTreeSet<Started> {
    let start = |row: &JobRow| match &row.job.phase {
        Phase::Starting { since, .. } => Some((row.job.id, row.job.attempt, *since)),
        _ => None,
    };
    world.holding().filter_map(start).collect()
}

/// Returns a job that one step started on capacity that is reserved for other jobs, or drained,
/// after that step. Reservations of later steps do not matter. Times can't tell that apart, because
/// the clock of the next server may be behind.
pub(crate) fn outsider(
    world: &World,
    now: Timestamp,
    before: &BTreeSet<Started>,
    claims: &Claims,
) -> Option<String> {
    // A job with a claim had the place before.
    let is_new = |(id, ..): &&Started| !claims.contains_key(id);
    for (id, ..) in starting(world).difference(before).filter(is_new) {
        let row = world.job(*id)?;
        for allocation in row.job.phase.allocations() {
            // The devices of a reservation by count may have been chosen anew since.
            let mut fixed = world.reservations().values().filter(|it| it.what.counted.is_none());
            let keeps = |it: &&gpool_model::Reservation| {
                let mut slots = allocation.slots.iter();
                it.is_active(now)
                    && !it.beneficiary.is_for(&row.spec)
                    && (it.what.has_node(&allocation.node)
                        || slots.any(|slot| it.what.has_device(&allocation.node, &slot.device)))
            };
            if let Some(it) = fixed.find(keeps) {
                return Some(format!("job {id} started on what {} keeps", it.name));
            }
            let node = &world.node(&allocation.node)?.node;
            let mut drains = allocation.slots.iter().filter_map(|slot| node.drain_of(&slot.device));
            if node.drain.is_some() || drains.next().is_some() {
                return Some(format!("job {id} started on {}, drained", node.name));
            }
        }
    }
    None
}

fn hours_long(hours: u64) -> Millis {
    Millis::from_hours(u32::try_from(hours % 1000).unwrap_or(0))
}

fn consent(then: u64) -> Consent {
    let choice = match then % 4 {
        0 => None,
        1 => Some(Displace::LetFinish),
        2 => Some(Displace::Requeue),
        _ => Some(Displace::Cancel),
    };
    Consent { dry_run: false, choice }
}
