//! Reservations, maintenance windows and drains through the state machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::agent::{Order, Report};
use gpool_model::event::{Journaled, Upkeep};
use gpool_model::reservation::DeviceRequest;
use gpool_model::*;

use crate::harness::*;

const HOUR: Millis = Millis::from_hours(1);

fn for_bo(ask: ReserveAsk) -> NewReservation {
    NewReservation {
        name: None,
        beneficiary: Beneficiary::User { uid: 1001, name: Arc::from("bo") },
        ask,
        when: ReserveWhen::default(),
        reason: Arc::from(""),
    }
}

fn gpus(text: &str) -> ReserveAsk {
    let gpus = GpuRequest::parse(text).expect("valid");
    ReserveAsk::Counted(DeviceRequest { gpus, spread: false })
}

fn device_named(device: &str) -> ReserveAsk {
    let devices = vec![DeviceRef { node: NodeName::new(NODE), device: device.to_owned() }];
    ReserveAsk::Devices { devices }
}

fn node() -> ReserveAsk {
    ReserveAsk::Nodes { nodes: BTreeSet::from([NodeName::new(NODE)]) }
}

fn chosen(choice: Displace) -> Consent {
    Consent { dry_run: false, choice: Some(choice) }
}

impl Harness {
    fn reserve(
        &mut self,
        new: NewReservation,
        consent: Consent,
    ) -> Result<ReserveOutcome, Refusal> {
        let command = Command::Reserve { reservation: Box::new(new), consent };
        match self.command(&root(), command)? {
            Reply::Reserved(outcome) => Ok(*outcome),
            other => panic!("not an answer to that: {other:?}"),
        }
    }

    fn drain(
        &mut self,
        device: Option<&str>,
        by: Option<Timestamp>,
        consent: Consent,
    ) -> Result<DrainOutcome, Refusal> {
        let command = Command::Drain {
            targets: vec![target(device)],
            by,
            reason: Arc::from("new PSU"),
            consent,
        };
        match self.command(&root(), command)? {
            Reply::Drained(outcome) => Ok(*outcome),
            other => panic!("not an answer to that: {other:?}"),
        }
    }

    fn devices_of(&self, name: &ReservationName) -> Vec<String> {
        let it = &self.control.world().reservations()[name];
        let devices = it.what.devices.values().flatten();
        devices.map(ToString::to_string).collect()
    }

    fn pass(&mut self, length: Millis) {
        self.now = self.now.after(length);
        self.step(vec![Event::TimerFired]);
    }

    fn kept(&self) -> Vec<Upkeep> {
        let kept = self.journal.iter().filter_map(|entry| match &entry.entry {
            Journaled::Kept { kept } => Some(kept.clone()),
            _ => None,
        });
        kept.flatten().collect()
    }
}

fn target(device: Option<&str>) -> DrainTarget {
    DrainTarget { node: NodeName::new(NODE), device: device.map(str::to_owned) }
}

fn limited(gpus: &str, limit: Millis) -> NewJob {
    job(gpus).with(|it| it.time_limit = Some(limit))
}

#[test]
fn only_admins_reserve_and_drain() {
    let mut lab = Harness::new(2);
    let reservation = Box::new(for_bo(gpus("1")));
    let consent = Consent::default();
    let commands = [
        Command::Reserve { reservation, consent },
        Command::Unreserve { names: vec![] },
        Command::EditReservation {
            name: ReservationName::new("r1"),
            patch: Box::default(),
            consent,
        },
        Command::Drain { targets: vec![], by: None, reason: Arc::from("x"), consent },
        Command::Undrain { targets: vec![] },
    ];
    for command in commands {
        let answer = lab.command(&ana(), command);
        assert!(matches!(answer, Err(Refusal::NotPermitted { .. })), "{answer:?}");
    }
}

#[test]
fn devices_by_number_are_the_ones_with_the_least_work_in_the_way() {
    let mut lab = Harness::new(4);
    let first = lab.add(job("1"));
    lab.started(first);
    let outcome = lab.reserve(for_bo(gpus("2")), Consent::default()).expect("there is room");
    assert!(outcome.done && outcome.affected.is_nobody());
    assert_eq!(outcome.reservation.name, ReservationName::new("r1"));
    assert_eq!(lab.devices_of(&outcome.reservation.name), ["GPU-1", "GPU-2"]);
    // Other reservations have those, so one more gets the busy device and the last one.
    let carl = NewReservation {
        beneficiary: Beneficiary::User { uid: 1002, name: Arc::from("carl") },
        ..for_bo(gpus("3"))
    };
    let refused = lab.reserve(carl.clone(), Consent::default());
    assert!(matches!(refused, Err(Refusal::NotEnoughToReserve { most: 2, .. })), "{refused:?}");
    let two = NewReservation { ask: gpus("2"), ..carl };
    let outcome = lab.reserve(two, chosen(Displace::LetFinish)).expect("two are left");
    assert_eq!(lab.devices_of(&outcome.reservation.name), ["GPU-0", "GPU-3"]);
    assert_eq!(outcome.affected.too_long.len(), 1);
}

#[test]
fn a_reservation_that_clashes_with_another_is_refused_naming_it() {
    let mut lab = Harness::new(2);
    let at = |hours: u32, lab: &Harness| Some(lab.now.after(Millis::from_hours(hours)));
    let when = ReserveWhen {
        from: at(2, &lab),
        end: Some(ReserveEnd::After(HOUR)),
        every: Some(Millis::from_hours(24)),
    };
    let daily = NewReservation { when, ..for_bo(device_named("0")) };
    lab.reserve(daily, Consent::default()).expect("nothing is in the way");
    // Ten days later, at the same time of day.
    let later =
        ReserveWhen { from: at(242, &lab), end: Some(ReserveEnd::After(HOUR)), every: None };
    let window = NewReservation { beneficiary: Beneficiary::Nobody, when: later, ..for_bo(node()) };
    let refused = lab.reserve(window.clone(), Consent::default());
    let Err(Refusal::ReservationClash { other, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(other, ReservationName::new("r1"));
    // An hour later it is free, and the same user may reserve it twice.
    let free = ReserveWhen { from: at(243, &lab), ..later };
    lab.reserve(NewReservation { when: free, ..window }, Consent::default()).expect("free then");
    let twice = NewReservation { when: later, ..for_bo(device_named("0")) };
    lab.reserve(twice, Consent::default()).expect("it is the same user");
}

#[test]
fn invalid_reservations_are_refused() {
    let mut lab = Harness::new(2);
    let (before, after) = (Timestamp::new(1000), lab.now.after(HOUR));
    let when = |from, end, every| ReserveWhen { from, end, every };
    let with = |when| NewReservation { when, ..for_bo(gpus("1")) };
    let until = |at| Some(ReserveEnd::At(at));
    let wrong = [
        ("from", with(when(Some(before), None, None))),
        ("until", with(when(Some(after), until(after), None))),
        ("until", with(when(Some(after), until(before), None))),
        ("every", with(when(None, None, Some(HOUR)))),
        ("every", with(when(None, Some(ReserveEnd::After(HOUR)), Some(Millis::from_mins(30))))),
        ("gpus", for_bo(gpus("0"))),
        ("devices", for_bo(ReserveAsk::Devices { devices: vec![] })),
        ("nodes", for_bo(ReserveAsk::Nodes { nodes: BTreeSet::new() })),
        ("from", with(when(Some(Timestamp::new(u64::MAX)), None, None))),
        ("name", NewReservation { name: Some(ReservationName::new("a b")), ..for_bo(gpus("1")) }),
        ("reason", NewReservation { reason: Arc::from("a\nb"), ..for_bo(gpus("1")) }),
    ];
    for (expected, new) in wrong {
        let answer = lab.reserve(new.clone(), Consent::default());
        let Err(Refusal::Invalid { field, .. }) = &answer else { panic!("{new:?}: {answer:?}") };
        assert_eq!(field, expected, "{new:?}");
    }
    let named = |node: &str, device: &str| ReserveAsk::Devices {
        devices: vec![DeviceRef { node: NodeName::new(node), device: device.to_owned() }],
    };
    let codes = [
        (604, for_bo(named(NODE, "7"))),
        (603, for_bo(named("lab9", "0"))),
        (
            602,
            NewReservation {
                beneficiary: Beneficiary::Project { name: ProjectName::new("none") },
                ..for_bo(gpus("1"))
            },
        ),
        (
            601,
            NewReservation {
                beneficiary: Beneficiary::Job { id: JobId::single(9) },
                ..for_bo(gpus("1"))
            },
        ),
        (733, for_bo(gpus("a100:1"))),
    ];
    for (code, new) in codes {
        let answer = lab.reserve(new, Consent::default());
        assert_eq!(answer.as_ref().map(drop).map_err(Refusal::code), Err(Code(code)), "{answer:?}");
    }
    assert!(lab.control.world().reservations().is_empty());
}

#[test]
fn affected_jobs_are_shown_before_a_reservation_is_made() {
    let mut lab = Harness::new(3);
    let short = lab.add(limited("1", HOUR));
    let long = lab.add(limited("1", Millis::from_hours(9)));
    let open = lab.add(job("1"));
    for id in [short, long, open] {
        lab.started(id);
    }
    let waits = lab.add(job("2"));
    let ends_before = lab.add(limited("1", HOUR));
    let from = Some(lab.now.after(Millis::from_hours(2)));
    let when = ReserveWhen { from, end: Some(ReserveEnd::After(HOUR)), every: None };
    let window = NewReservation { beneficiary: Beneficiary::Nobody, when, ..for_bo(node()) };
    let refused = lab.reserve(window.clone(), Consent::default());
    let Err(Refusal::AffectsOthers { affected, .. }) = refused else { panic!("{refused:?}") };
    let ids = |there: &[reserve::RunningThere]| there.iter().map(|it| it.job).collect::<Vec<_>>();
    assert_eq!(ids(&affected.in_time), [short]);
    assert_eq!(ids(&affected.too_long), [long, open]);
    assert_eq!(affected.waiting.iter().map(|it| it.job).collect::<Vec<_>>(), [waits]);
    assert_ne!(waits, ends_before);
    assert!(lab.control.world().reservations().is_empty());
    // A dry run gives the same answer.
    let dry = Consent { dry_run: true, choice: None };
    let outcome = lab.reserve(window.clone(), dry).expect("it is only asked");
    assert_eq!((outcome.done, &outcome.affected), (false, &*affected));
    assert!(lab.control.world().reservations().is_empty());
    let outcome = lab.reserve(window, chosen(Displace::LetFinish)).expect("it was agreed to");
    assert!(outcome.done && outcome.reservation.name == ReservationName::new("m1"));
}

#[test]
fn a_reservation_that_is_over_goes_and_one_for_a_job_goes_with_it() {
    let mut lab = Harness::new(2);
    let id = lab.add(job("1"));
    lab.started(id);
    let end = Some(ReserveEnd::After(HOUR));
    let once = ReserveWhen { end, ..ReserveWhen::default() };
    lab.reserve(NewReservation { when: once, ..for_bo(device_named("1")) }, Consent::default())
        .expect("free");
    let of_job =
        NewReservation { beneficiary: Beneficiary::Job { id }, ..for_bo(device_named("0")) };
    lab.reserve(of_job, Consent::default()).expect("it is its own");
    assert_eq!(lab.control.next_timer(), lab.control.next_timer().min(Some(lab.now.after(HOUR))));
    lab.pass(HOUR);
    assert_eq!(lab.control.world().reservations().len(), 1);
    lab.exited(id, 0);
    assert!(lab.control.world().reservations().is_empty());
    let ended = |name: &str| Upkeep::Ended { reservation: ReservationName::new(name) };
    assert_eq!(lab.kept(), [ended("r1"), ended("r2")]);
}

#[test]
fn a_device_that_is_lost_is_replaced_and_one_that_can_not_be_stays() {
    let mut lab = Harness::new(3);
    let outcome = lab.reserve(for_bo(gpus("2")), Consent::default()).expect("free");
    let name = outcome.reservation.name;
    assert_eq!(lab.devices_of(&name), ["GPU-0", "GPU-1"]);
    let with = |lost: &[u32]| match inventory(3) {
        Report::Inventory { stamp, capacity, mut devices, boot_id, facts } => {
            for device in &mut devices {
                if lost.contains(&device.index) {
                    device.health = DeviceHealth::Lost;
                }
            }
            Report::Inventory { stamp, capacity, devices, boot_id, facts }
        }
        other => other,
    };
    lab.report(with(&[0]));
    assert_eq!(lab.devices_of(&name), ["GPU-1", "GPU-2"]);
    assert_eq!(lab.kept(), [Upkeep::Replaced { reservation: name.clone() }]);
    lab.report(with(&[0, 1]));
    assert_eq!(lab.devices_of(&name), ["GPU-1", "GPU-2"], "nothing is there in its place");
    // The first device is gone for good; then another one is whole again.
    lab.report(with(&[1]));
    assert_eq!(lab.devices_of(&name), ["GPU-0", "GPU-2"]);
}

#[test]
fn work_of_others_leaves_when_a_window_begins_if_that_was_asked_for() {
    let mut lab = Harness::new(2);
    let id = lab.add(job("1"));
    lab.started(id);
    let from = Some(lab.now.after(HOUR));
    let when = ReserveWhen { from, end: Some(ReserveEnd::After(HOUR)), every: None };
    let window = NewReservation { beneficiary: Beneficiary::Nobody, when, ..for_bo(node()) };
    lab.reserve(window, chosen(Displace::Cancel)).expect("it was agreed to");
    lab.take_orders();
    lab.pass(Millis::from_mins(59));
    assert_eq!(lab.state(id), job::JobState::Running);
    lab.pass(Millis::from_mins(1));
    assert_eq!(lab.state(id), job::JobState::Stopping);
    assert!(lab.take_orders().iter().any(|order| matches!(order, Order::Stop { .. })));
    let by = "maintenance m1".to_owned();
    assert_eq!(lab.kept(), [Upkeep::Displaced { job: id, how: Displace::Cancel, by }]);
    // The job is ordered to leave once.
    lab.pass(Millis::from_secs(1));
    assert_eq!(lab.kept().len(), 1);
}

#[test]
fn a_drained_device_gets_no_work_until_it_is_undrained() {
    let mut lab = Harness::new(2);
    lab.drain(Some("0"), None, Consent::default()).expect("no job is affected");
    let first = lab.add(job("1"));
    assert_eq!(lab.task_of(first).job, first);
    let row = lab.control.world().job(first).expect("it is live");
    assert_eq!(row.job.phase.allocations()[0].slots[0].index, 1);
    let second = lab.add(job("1"));
    assert_eq!(lab.state(second), job::JobState::Pending);
    lab.restart();
    let term = lab.term();
    lab.report(inventory(2));
    lab.report(tasks(term, vec![]));
    assert_eq!(lab.control.world().node(&NodeName::new(NODE)).unwrap().node.drains().count(), 1);
    let undrain = Command::Undrain { targets: vec![target(Some("0"))] };
    assert_eq!(lab.command(&root(), undrain.clone()), Ok(Reply::Done));
    assert_eq!(lab.state(second), job::JobState::Starting);
    let again = lab.command(&root(), undrain);
    assert!(matches!(again, Err(Refusal::NotDrained { .. })), "{again:?}");
}

#[test]
fn a_drain_with_a_deadline_needs_a_choice_and_keeps_it() {
    let mut lab = Harness::new(2);
    let short = lab.add(limited("1", Millis::from_mins(10)));
    let long = lab.add(limited("1", Millis::from_hours(9)));
    lab.started(short);
    lab.started(long);
    let by = Some(lab.now.after(HOUR));
    let refused = lab.drain(None, by, Consent::default());
    let Err(Refusal::AffectsOthers { affected, action }) = refused else { panic!("{refused:?}") };
    assert_eq!((action.as_str(), affected.by), ("drain lab1", by));
    assert_eq!((affected.in_time[0].job, affected.too_long[0].job), (short, long));
    assert!(lab.control.world().drained().next().is_none(), "nothing changed yet");
    lab.drain(None, by, chosen(Displace::Cancel)).expect("it was agreed to");
    let waits = lab.add(job("0"));
    assert_eq!(lab.state(waits), job::JobState::Pending);
    lab.exited(short, 0);
    lab.pass(HOUR);
    assert_eq!(lab.state(long), job::JobState::Stopping);
    let past = lab.drain(None, Some(Timestamp::ZERO), Consent::default());
    assert!(matches!(past, Err(Refusal::Invalid { ref field, .. }) if field == "by"), "{past:?}");
}

#[test]
fn an_edit_moves_a_reservation_and_keeps_the_rest() {
    let mut lab = Harness::new(2);
    let from = Some(lab.now.after(HOUR));
    let when = ReserveWhen { from, end: Some(ReserveEnd::After(HOUR)), every: None };
    let new = NewReservation { when, ..for_bo(device_named("0")) };
    let name = lab.reserve(new, Consent::default()).expect("free").reservation.name;
    let later = lab.now.after(Millis::from_hours(5));
    let mut edit = |patch| {
        let (name, patch) = (name.clone(), Box::new(patch));
        let command = Command::EditReservation { name, patch, consent: Consent::default() };
        lab.command(&root(), command)
    };
    let moved = edit(ReservationPatch { from: Some(later), ..ReservationPatch::default() });
    let Ok(Reply::Reserved(moved)) = moved else { panic!("{moved:?}") };
    let expected = Window { from: later, until: Some(later.after(HOUR)) };
    assert_eq!(moved.reservation.window, expected);
    let reason =
        ReservationPatch { reason: Some(Arc::from("demo")), ..ReservationPatch::default() };
    let Ok(Reply::Reserved(same)) = edit(reason) else { panic!("not changed") };
    assert_eq!((same.reservation.window, &*same.reservation.reason), (expected, "demo"));
    let backwards = ReservationPatch {
        end: Some(ReserveEnd::At(Timestamp::new(5))),
        ..ReservationPatch::default()
    };
    assert!(matches!(edit(backwards), Err(Refusal::Invalid { .. })));
    assert_eq!(lab.control.world().reservations()[&name], same.reservation);
}

#[test]
fn a_displaced_job_is_requeued_unless_it_may_not_run_twice() {
    let mut lab = Harness::new(2);
    let once = job("1").with(|it| it.life = Life { requeue: Some(false), ..Life::default() });
    let (id, once) = (lab.add(job("1")), lab.add(once));
    lab.started(id);
    lab.started(once);
    lab.drain(None, None, chosen(Displace::Requeue)).expect("it was agreed to");
    assert_eq!(lab.state(id), job::JobState::Stopping);
    assert_eq!(lab.state(once), job::JobState::Running);
    let stopped = end(lab.now, Some(job::ExitStatus::Signal(15)), true);
    lab.say(id, agent::TaskIs::Ended(stopped));
    assert_eq!(lab.state(id), job::JobState::Pending);
    lab.command(&root(), Command::Undrain { targets: vec![target(None)] }).expect("it is drained");
    assert_eq!(lab.state(id), job::JobState::Starting);
}
