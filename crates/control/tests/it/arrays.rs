//! Arrays: elements start one after the other, each exactly once unless it is retried, within the
//! array's own limits; an action on an array applies to its elements.

use gpool_model::agent::{TaskEnd, TaskIs};
use gpool_model::array::ArraySpec;
use gpool_model::command::ArchivedDependency;
use gpool_model::job::{DependencyKind, EndCause, JobState};
use gpool_model::{
    Command, Dependency, JobId, JobNumber, JobPatch, JobVerb, NewJob, Outcome, Phase, Rare,
    Refusal, Reply, Timestamp,
};

use crate::harness::*;

pub fn array(indexes: &str) -> NewJob {
    let spec =
        ArraySpec { indexes: indexes.parse().expect("indexes"), values: None, objective: None };
    job("1").with(|it| it.array = Some(Box::new(spec)))
}

fn limited(indexes: &str, max_parallel: Option<u32>, max_fails: Option<u32>) -> NewJob {
    let mut job = array(indexes);
    let standing = &mut *job.standing;
    (standing.max_parallel, standing.max_fails) = (max_parallel, max_fails);
    job
}

/// An array; each element waits for its counterpart in another array.
fn alike(of: JobId, indexes: &str) -> NewJob {
    let after = vec![Dependency::new(of, DependencyKind::Each)];
    array(indexes).with(|it| it.after = Rare::from(after))
}

fn element(of: JobId, index: u32) -> JobId {
    JobId { element: Some(index), ..of }
}

fn running(harness: &Harness, of: JobId) -> Vec<u32> {
    let rows = harness.control.world().elements(of.number);
    let live = rows.filter(|row| !row.job.phase.allocations().is_empty());
    live.filter_map(|row| row.job.id.element).collect()
}

fn counts(harness: &Harness, of: JobId) -> (u32, u32, u32) {
    let world = harness.control.world();
    let array = world.array(of.number).expect("it lives").job.array.as_ref().expect("an array");
    (array.unstarted.len(), world.n_live_of(of.number), array.n_ended())
}

#[test]
fn elements_start_in_order_and_end_once_each() {
    let mut harness = Harness::new(2);
    let id = harness.add(array("3-9:2"));
    assert_eq!(running(&harness, id), [3, 5]);
    assert_eq!(counts(&harness, id), (2, 2, 0));
    assert_eq!(harness.state(id), JobState::Pending);
    harness.started(element(id, 5));
    harness.exited(element(id, 5), 0);
    assert_eq!(running(&harness, id), [3, 7]);
    harness.started(element(id, 7));
    harness.exited(element(id, 7), 0);
    assert_eq!((running(&harness, id), counts(&harness, id)), (vec![3, 9], (0, 2, 2)));
    assert!(matches!(
        harness.control.world().job(id).expect("it lives").job.phase,
        Phase::Underway { .. }
    ));
    harness.restart();
    harness.started(element(id, 3));
    harness.exited(element(id, 3), 0);
    harness.started(element(id, 9));
    harness.exited(element(id, 9), 0);
    let end = harness.end_of(id);
    assert_eq!((end.outcome, end.cause.as_ref()), (Outcome::Succeeded, None));
    assert!(end.started_at.is_some());
}

#[test]
fn a_lost_array_has_the_cause_of_its_first_lost_element() {
    let mut harness = Harness::new(3);
    let id = harness.add(array("0-2"));
    let killed = |shepherd| {
        let by = Some(gpool_model::job::ExitStatus::Signal(9));
        EndCause::ShepherdEnded { shepherd, by, may_be_left: false }
    };
    for index in 0..3 {
        harness.started(element(id, index));
    }
    harness.exited(element(id, 1), 0);
    for (index, shepherd) in [(2, 42), (0, 43)] {
        let end = end(harness.now, None, false);
        let end = TaskEnd { cause: Some(killed(shepherd)), ..end };
        harness.say(element(id, index), TaskIs::Ended(end));
    }
    let end = harness.end_of(id);
    assert_eq!((end.outcome, &end.cause), (Outcome::Lost, &Some(killed(42))));
}

#[test]
fn an_array_keeps_itself_to_its_limit_and_out_of_the_way() {
    let mut harness = Harness::new(4);
    let id = harness.add(limited("0-9", Some(2), None));
    assert_eq!(running(&harness, id), [0, 1]);
    let other = harness.add(job("1"));
    assert_eq!(harness.state(other), JobState::Starting);
    let patch = JobPatch::default().with("max_parallel", |to| to.standing.max_parallel = Some(0));
    let edit = Command::Edit { job: id, version: None, ends: Vec::new(), patch };
    harness.command(&ana(), edit).expect("it is hers");
    assert_eq!(running(&harness, id), [0, 1, 2]);
}

#[test]
fn after_too_many_failures_the_rest_is_cancelled() {
    let mut harness = Harness::new(2);
    let id = harness.add(limited("0-99999", None, Some(1)));
    for index in [0, 1] {
        harness.started(element(id, index));
        harness.exited(element(id, index), 1);
    }
    for index in running(&harness, id) {
        assert_eq!(harness.state(element(id, index)), JobState::Stopping);
        let now = harness.now;
        harness.say(element(id, index), gpool_model::agent::TaskIs::Ended(end(now, None, true)));
    }
    let end = harness.end_of(id);
    assert_eq!(end.outcome, Outcome::Failed);
    assert_eq!(end.cause, Some(EndCause::TooManyFailed { most: 1 }));
    assert_eq!(harness.control.world().n_live_jobs(), 0);
}

#[test]
fn single_elements_are_held_cancelled_and_released() {
    let mut harness = Harness::new(1);
    let id = harness.add(array("0-4"));
    harness.command(&ana(), Command::on(vec![element(id, 1)], JobVerb::Hold)).expect("it waits");
    harness.command(&ana(), Command::on(vec![element(id, 2)], JobVerb::Cancel)).expect("it waits");
    harness.started(element(id, 0));
    harness.exited(element(id, 0), 0);
    assert_eq!(running(&harness, id), [3], "1 is held and 2 is gone");
    harness
        .command(&ana(), Command::on(vec![element(id, 1)], JobVerb::Release { at: None }))
        .expect("it is held");
    let gone = harness.command(&ana(), Command::on(vec![element(id, 2)], JobVerb::Cancel));
    assert!(matches!(gone, Err(Refusal::AlreadyEnded { state: JobState::Cancelled, .. })));
    let absent = harness.command(&ana(), Command::on(vec![element(id, 5)], JobVerb::Cancel));
    assert!(matches!(absent, Err(Refusal::NoSuchJob { .. })));
    let theirs = harness.command(&bo(), Command::on(vec![element(id, 4)], JobVerb::Hold));
    assert!(matches!(theirs, Err(Refusal::NotPermitted { .. })));
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("it is hers");
    assert_eq!(harness.state(element(id, 3)), JobState::Stopping);
    let now = harness.now;
    harness.say(element(id, 3), gpool_model::agent::TaskIs::Ended(end(now, None, true)));
    assert_eq!(harness.end_of(id).outcome, Outcome::Cancelled);
}

#[test]
fn elements_that_did_not_succeed_begin_their_next_attempt() {
    let mut harness = Harness::new(1);
    let id = harness.add(array("0-2"));
    for (index, code) in [(0, 1), (1, 0)] {
        harness.started(element(id, index));
        harness.exited(element(id, index), code);
    }
    harness.command(&ana(), Command::Retry { jobs: vec![id] }).expect("one has failed");
    assert_eq!(counts(&harness, id), (1, 1, 1));
    let none = harness.command(&ana(), Command::Retry { jobs: vec![id] });
    assert!(matches!(none, Err(Refusal::Invalid { .. })), "{none:?}");
    harness.started(element(id, 2));
    harness.exited(element(id, 2), 0);
    assert_eq!(harness.task_of(element(id, 0)).attempt.0, 2);
    harness.started(element(id, 0));
    harness.exited(element(id, 0), 0);
    assert_eq!(harness.end_of(id).outcome, Outcome::Succeeded);
}

#[test]
fn a_retried_element_waits_for_the_dependencies_of_its_array() {
    let mut harness = Harness::new(2);
    let first = harness.add(job("1"));
    let after = vec![Dependency::new(first, DependencyKind::Ok)];
    let id = harness.add(array("0-1").with(|it| it.after = Rare::from(after)));
    // One element is cancelled, and the other has a row of its own: the array has nothing else
    // left.
    let (cancel, hold) = (vec![element(id, 0)], vec![element(id, 1)]);
    harness.command(&ana(), Command::on(cancel.clone(), JobVerb::Cancel)).expect("it waits");
    harness.command(&ana(), Command::on(hold, JobVerb::Hold)).expect("it waits");
    harness.command(&ana(), Command::Retry { jobs: cancel }).expect("it has ended");
    assert_eq!(harness.state(id), JobState::Waiting);
    assert_eq!(running(&harness, id), []);
    harness.started(first);
    harness.exited(first, 0);
    assert_eq!(running(&harness, id), [0]);
}

#[test]
fn others_wait_for_all_of_it_for_one_element_or_for_their_like() {
    let mut harness = Harness::new(1);
    let first = harness.add(array("0-2"));
    let after = |job, kind| vec![Dependency::new(job, kind)];
    let all =
        harness.add(job("1").with(|it| it.after = Rare::from(after(first, DependencyKind::Ok))));
    let one = element(first, 1);
    let of_one =
        harness.add(job("0").with(|it| it.after = Rare::from(after(one, DependencyKind::Fail))));
    let alike = harness
        .add(array("0-2").with(|it| it.after = Rare::from(after(first, DependencyKind::Each))));
    let other = array("0-3").with(|it| it.after = Rare::from(after(first, DependencyKind::Each)));
    assert!(matches!(harness.submit(&ana(), vec![other]), Err(Refusal::Invalid { .. })));
    assert_eq!(harness.state(alike), JobState::Waiting);
    harness.started(element(first, 0));
    harness.exited(element(first, 0), 0);
    assert_eq!(harness.state(alike), JobState::Pending);
    assert_eq!(harness.state(of_one), JobState::Waiting);
    harness.started(one);
    harness.exited(one, 1);
    assert_ne!(harness.state(of_one), JobState::Waiting);
    let world = harness.control.world();
    assert_eq!(world.recent_end(element(alike, 1)), Some(Outcome::Cancelled));
    harness.started(element(first, 2));
    harness.exited(element(first, 2), 0);
    assert_eq!(harness.end_of(first).outcome, Outcome::Failed);
    assert_eq!(harness.end_of(all).cause, Some(EndCause::DependencyFailed { job: first }));
    for index in [0, 2] {
        harness.started(element(alike, index));
        harness.exited(element(alike, index), 0);
    }
    assert_eq!(harness.end_of(alike).outcome, Outcome::Cancelled);
}

#[test]
fn an_element_waits_for_its_counterparts_in_all_other_arrays() {
    let mut harness = Harness::new(4);
    let arrays = [harness.add(array("0-1")), harness.add(array("0-1"))];
    let after = arrays.map(|of| Dependency::new(of, DependencyKind::Each)).to_vec();
    let id = harness.add(array("0-1").with(|it| it.after = Rare::from(after)));
    for (of, index) in [(0, 0), (1, 1)].map(|(at, index)| (arrays[at], index)) {
        harness.started(element(of, index));
        harness.exited(element(of, index), 0);
        assert_eq!(running(&harness, id), []);
    }
    harness.started(element(arrays[0], 1));
    harness.exited(element(arrays[0], 1), 0);
    assert_eq!(running(&harness, id), [1]);
}

/// What depends on an element that runs again, and has not started, waits again.
#[test]
fn a_retried_element_is_waited_for_again() {
    let mut harness = Harness::new(1);
    let blocker = harness.add(job("1"));
    let first = harness.add(array("0-3"));
    let one = element(first, 0);
    let after = Rare::from(vec![Dependency::new(one, DependencyKind::End)]);
    let of_one = harness.add(job("1").with(|it| it.after = after));
    let of_each = harness.add(alike(first, "0-3"));
    let awaits = |harness: &Harness, index| {
        let array = harness.control.world().array(of_each.number).unwrap().job.array.clone();
        array.unwrap().waiting.contains(index)
    };
    let retry = |harness: &mut Harness, jobs: Vec<JobId>| {
        harness.command(&ana(), Command::Retry { jobs }).expect("it has ended");
    };
    let cancel = Command::on(vec![one], JobVerb::Cancel);
    harness.command(&ana(), cancel).expect("it has not started");
    assert_eq!(harness.state(of_one), JobState::Pending);
    retry(&mut harness, vec![one]);
    assert_eq!(harness.state(of_one), JobState::Waiting);
    // Its counterpart has ended with it, and waits for it once it is retried too.
    retry(&mut harness, vec![element(of_each, 0)]);
    assert!(awaits(&harness, 0));
    harness.started(blocker);
    harness.exited(blocker, 0);
    harness.started(one);
    harness.exited(one, 0);
    assert_ne!(harness.state(of_one), JobState::Waiting);
    assert!(!awaits(&harness, 0));
}

#[test]
fn elements_that_ended_decide_at_once_for_their_like_whether_their_array_lives_or_not() {
    for has_ended in [false, true] {
        let mut harness = Harness::new(4);
        let first = harness.add(array("0-3"));
        for (index, code) in [(0, 0), (1, 1), (2, 1)] {
            harness.started(element(first, index));
            harness.exited(element(first, index), code);
        }
        let mut later = alike(first, "0-3").with(|it| it.standing.hold = true);
        if has_ended {
            harness.started(element(first, 3));
            harness.exited(element(first, 3), 0);
            assert_eq!(harness.end_of(first).outcome, Outcome::Failed);
            later.standing.hold = false;
        }
        let id = harness.add(later);
        harness.command(&ana(), Command::on(vec![id], JobVerb::Release { at: None })).ok();
        let world = harness.control.world();
        let array = world.array(id.number).unwrap().job.array.as_ref().unwrap();
        assert_eq!(array.ended[&Outcome::Cancelled].to_string(), "1-2");
        let failed = JobId { element: Some(1), ..first };
        assert_eq!(array.stopped, Some(EndCause::DependencyFailed { job: failed }));
        assert_eq!(array.waiting.contains(3), !has_ended);
        assert_eq!(running(&harness, id), if has_ended { vec![0, 3] } else { vec![0] });
    }
}

#[test]
fn ends_of_an_array_that_left_memory_come_from_the_caller() {
    let mut harness = Harness::new(2);
    let [first, none] = [harness.add(array("0-1")), harness.add(array("0-1"))];
    for (of, index, code) in [(first, 0, 1), (first, 1, 0), (none, 0, 1), (none, 1, 1)] {
        harness.started(element(of, index));
        harness.exited(element(of, index), code);
    }
    // An array with no element that can ever start is refused, also after a single job.
    let never = harness.submit(&ana(), vec![alike(none, "0-1")]);
    assert!(matches!(never, Err(Refusal::DependencyNeverMet { job, .. }) if job == none));
    let ends_of = |harness: &Harness, id: JobId| {
        let ended = harness.ended.iter().find(|ended| ended.id() == id).unwrap();
        let indexes = ended.spec.array.as_ref().unwrap().indexes.clone();
        let ended = ended.job.array.as_ref().unwrap().ended.clone();
        (id, gpool_model::array::ArrayEnds { indexes, ended })
    };
    let array_ends = vec![ends_of(&harness, first), ends_of(&harness, none)];
    harness.restart();
    let failed =
        |job| ArchivedDependency { job, outcome: Outcome::Failed, began_at: Timestamp::new(0) };
    let ends = vec![failed(first), failed(none)];
    let mut submit = |new: NewJob| {
        let (ends, array_ends) = (ends.clone(), array_ends.clone());
        let jobs = vec![new];
        let submit = Command::Submit { jobs, key: None, ends, array_ends, dry_run: false };
        harness.command(&ana(), submit)
    };
    let other = submit(alike(first, "0-2"));
    assert!(matches!(other, Err(Refusal::Invalid { .. })), "{other:?}");
    let single = submit(job("1").with(|it| it.after = alike(first, "0").request.after));
    assert!(matches!(single, Err(Refusal::Invalid { .. })), "{single:?}");
    assert!(matches!(submit(alike(none, "0-1")), Err(Refusal::DependencyNeverMet { .. })));
    let Ok(Reply::Submitted { first: number, .. }) = submit(alike(first, "0-1")) else { panic!() };
    let id = JobId { number, element: None };
    let row = harness.control.world().array(id.number).expect("one can start");
    let array = row.job.array.as_ref().expect("an array");
    assert_eq!(array.ended[&Outcome::Cancelled].to_string(), "0");
    assert_eq!(array.unstarted.to_string(), "1");
}

#[test]
fn a_hundred_thousand_elements_are_one_record() {
    let mut harness = Harness::new(1);
    let reply = harness.submit(&ana(), vec![array("0-99999")]);
    assert_eq!(reply, Ok(Reply::Submitted { first: JobNumber(1), n_jobs: 1, repeated: false }));
    let world = harness.control.world();
    assert_eq!((world.n_pending(), world.jobs().len()), (99_999, 2));
    assert_eq!(world.n_of_user(ana().owner.uid), 100_000);
}
