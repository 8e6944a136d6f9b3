//! What each order and answer makes of a task.

#![allow(clippy::unwrap_used)] // A test may end by a panic.

mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::JobRequest;
use gpool_model::SignalTo;
use gpool_model::agent::{Order, Report, TaskEnd, TaskIs, TaskOrder, TaskReport};
use gpool_model::allocation::{Allocation, AllocationState};
use gpool_model::gpu::GpuRequest;
use gpool_model::id::{
    Attempt, DeviceUuid, Generation, JobId, NodeName, PoolName, RequestId, Round, TaskId, Term,
};
use gpool_model::job::{BlobId, ExitStatus, JobSpec, Owner, Usage};
use gpool_model::resource::Resources;
use gpool_model::unit::{Millis, Timestamp};
use gpool_node::converge::{Action, Converge, Halting, Input, Seats};

const GRACE: Millis = Millis::from_secs(30);

pub(crate) fn task(number: u64) -> TaskId {
    TaskId { job: JobId::single(number), attempt: Attempt::FIRST, rank: 0 }
}

pub(crate) fn run(term: u64, number: u64, generation: u64) -> Order {
    let id = JobId::single(number);
    let spec = JobSpec {
        retry_of: None,
        joins: None,
        id,
        owner: Owner { uid: 1000, gid: 1000, user: Arc::from("ana") },
        script: None,
        context: BlobId(Arc::from("c")),
        setup: None,
        submitted_at: Timestamp::ZERO,
        request: JobRequest {
            name: Arc::from("a"),
            command: vec!["true".to_owned()],
            gpus: GpuRequest::whole(0),
            gpus_written: Arc::from("0"),
            grace: GRACE,
            ..JobRequest::default()
        },
    };
    let allocation = Allocation {
        task: task(number),
        node: NodeName::new("n1"),
        slots: Vec::new(),
        resources: Resources::none(),
        state: AllocationState::Placed,
    };
    let (term, generation) = (Term(term), Generation(generation));
    let (spec, pool, nodes) = (Arc::new(spec), PoolName::usual(), Vec::new());
    let master_addr = String::new();
    let order = TaskOrder {
        parts: Vec::new(),
        term,
        generation,
        spec,
        allocation,
        pool,
        has_gate: false,
        sharer: None,
        nodes,
        master_addr,
    };
    Order::Run(Box::new(order))
}

fn stop(term: u64, number: u64, generation: u64) -> Order {
    let (term, generation) = (Term(term), Generation(generation));
    Order::Stop { term, task: task(number), generation, grace: GRACE, signal: None }
}

/// An acknowledgement that covers every generation.
fn acknowledge(term: u64, number: u64) -> Order {
    let (term, generation) = (Term(term), Generation(u64::MAX));
    Order::Acknowledge { term, task: task(number), generation }
}

pub(crate) fn end(stopped: bool) -> TaskEnd {
    TaskEnd {
        started_at: None,
        ended_at: Timestamp::ZERO,
        exit: (!stopped).then_some(ExitStatus::Code(0)),
        cause: None,
        stopped,
        usage: Usage::default(),
        steps: gpool_model::Rare::default(),
    }
}

fn obey(converge: &mut Converge, order: Order) -> Vec<Action> {
    converge.step(Input::Order(order))
}

fn started(number: u64) -> Input {
    Input::Started { task: task(number), pid: 7, started_at: Timestamp::ZERO }
}

fn ended(number: u64) -> Input {
    Input::Ended { task: task(number), end: end(false) }
}

fn reported(actions: &[Action]) -> Vec<&TaskIs> {
    let task = |action| match action {
        &Action::Report(Report::Task(ref report)) => Some(&report.is),
        _ => None,
    };
    actions.iter().filter_map(task).collect()
}

#[test]
fn a_task_is_launched_once_reported_and_forgotten() {
    let mut converge = Converge::default();
    assert!(matches!(&obey(&mut converge, run(1, 1, 1))[..], [Action::Launch { .. }]));
    let again = obey(&mut converge, run(1, 1, 1));
    assert_eq!(reported(&again), [&TaskIs::Launching], "reported again, not launched again");
    assert!(matches!(reported(&converge.step(started(1)))[..], [TaskIs::Running { pid: 7, .. }]));
    assert_eq!(reported(&converge.step(ended(1))), [&TaskIs::Ended(end(false))]);
    let sync = obey(
        &mut converge,
        Order::Sync { term: Term(2), round: Round(1), closed: BTreeSet::new() },
    );
    let [Action::Report(Report::Tasks { term: Term(2), tasks, .. })] = &sync[..] else {
        panic!("{sync:?}")
    };
    assert_eq!(tasks[0].is, TaskIs::Ended(end(false)), "kept until acknowledged");
    assert_eq!(obey(&mut converge, acknowledge(1, 1)), [], "an old term");
    assert_eq!(obey(&mut converge, acknowledge(2, 1)), [Action::Forget(task(1))]);
    assert_eq!(reported(&obey(&mut converge, run(2, 1, 9))), [&TaskIs::Over], "never again");
    assert_eq!(converge.tasks(), []);
}

#[test]
fn orders_of_an_old_term_or_generation_are_refused() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(2, 1, 5));
    assert_eq!(obey(&mut converge, stop(1, 1, 6)), [], "old term");
    assert_eq!(obey(&mut converge, stop(2, 1, 4)), [], "old generation");
    let grace = GRACE;
    assert_eq!(
        obey(&mut converge, stop(2, 1, 5)),
        [Action::Stop { task: task(1), grace, signal: None }]
    );
    assert_eq!(obey(&mut converge, stop(2, 1, 5)), [], "ordered before");
    let sooner = Order::Stop {
        term: Term(2),
        task: task(1),
        generation: Generation(6),
        grace: Millis::ZERO,
        signal: None,
    };
    let grace = Millis::ZERO;
    assert_eq!(obey(&mut converge, sooner), [Action::Stop { task: task(1), grace, signal: None }]);
}

#[test]
fn a_save_order_is_sent_once_and_a_plain_stop_after_it() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(1, 1, 1));
    let save = |grace| {
        let (term, generation, signal) = (Term(1), Generation(1), Some(10));
        Order::Stop { term, task: task(1), generation, grace, signal }
    };
    let long = Millis::from_hours(1);
    let told = Action::Stop { task: task(1), grace: long, signal: Some(10) };
    assert_eq!(obey(&mut converge, save(long)), [told]);
    assert_eq!(obey(&mut converge, save(long)), [], "ordered before");
    let ended = Action::Stop { task: task(1), grace: GRACE, signal: None };
    assert_eq!(obey(&mut converge, stop(1, 1, 1)), [ended]);
    assert_eq!(obey(&mut converge, save(long)), [], "it is ending");
}

#[test]
fn a_running_task_is_paused_and_resumed_by_the_last_order() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(1, 1, 1));
    let (term, task) = (Term(1), task(1));
    let pause = |generation| {
        let generation = Generation(generation);
        Order::Pause { term, task, generation, runs_on: true }
    };
    let resume = |generation| Order::Resume {
        term,
        task,
        generation: Generation(generation),
        devices: Vec::new(),
    };
    let halted =
        |generation, halting| Input::Halted { task, generation: Generation(generation), halting };
    assert_eq!(reported(&obey(&mut converge, pause(2))), [&TaskIs::Launching], "too early");
    let _ = converge.step(Input::Started { task, pid: 7, started_at: Timestamp::ZERO });
    let generation = Generation(3);
    assert_eq!(obey(&mut converge, pause(3)), [Action::Pause { task, generation, runs_on: true }]);
    assert_eq!(
        obey(&mut converge, pause(3)),
        [Action::Pause { task, generation, runs_on: true }],
        "not reported yet"
    );
    let paused = TaskIs::Paused { pid: 7, started_at: Timestamp::ZERO };
    let running = TaskIs::Running { pid: 7, started_at: Timestamp::ZERO };
    assert_eq!(reported(&converge.step(halted(3, Halting::Paused))), [&paused]);
    assert_eq!(reported(&obey(&mut converge, pause(3))), [&paused], "reported again");
    assert_eq!(obey(&mut converge, resume(2)), [], "from before the pause");
    let generation = Generation(4);
    assert_eq!(
        obey(&mut converge, resume(4)),
        [Action::Resume { task, generation, devices: Vec::new(), booked: Vec::new() }]
    );
    assert_eq!(converge.step(halted(3, Halting::Paused)), [], "out of date");
    assert_eq!(reported(&converge.step(halted(4, Halting::Resumed))), [&running]);
    assert_eq!(obey(&mut converge, pause(3)), [], "from before the resume");
    let _ = obey(&mut converge, pause(5));
    let why = "it has managed memory".to_owned();
    let not = TaskIs::NotPaused { pid: 7, started_at: Timestamp::ZERO, why: why.clone() };
    assert_eq!(reported(&converge.step(halted(5, Halting::NotPaused { why }))), [&not]);
    let _ = obey(&mut converge, stop(1, 1, 5));
    assert_eq!(reported(&obey(&mut converge, pause(6))), [&not], "it is ending");
}

/// The server would take the task for running, and nothing would resume it.
#[test]
fn a_change_of_terms_does_not_make_the_answer_to_a_pause_an_old_one() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(1, 1, 1));
    let (term, task) = (Term(1), task(1));
    let _ = converge.step(Input::Started { task, pid: 7, started_at: Timestamp::ZERO });
    let generation = Generation(2);
    let _ = obey(&mut converge, Order::Pause { term, task, generation, runs_on: false });
    let _ = converge.step(Input::Changed { task, generation: Generation(3) });
    let paused = converge.step(Input::Halted { task, generation, halting: Halting::Paused });
    let is = TaskIs::Paused { pid: 7, started_at: Timestamp::ZERO };
    let report = TaskReport { task, generation: Generation(3), is };
    assert_eq!(paused, [Action::Report(Report::Task(report))]);
}

/// The order to resume it may have reached its shepherd only.
#[test]
fn a_task_that_an_earlier_agent_paused_may_run_before_its_shepherd_answers() {
    let mut converge = Converge::default();
    let (term, task, generation) = (Term(1), task(1), Generation(4));
    let found = |is_settled| {
        let is = TaskIs::Paused { pid: 7, started_at: Timestamp::ZERO };
        let report = TaskReport { task, generation: Generation(3), is };
        Input::Found { report, seats: Seats::default(), is_detached: false, is_settled }
    };
    let pause = Order::Pause { term, task, generation, runs_on: false };
    let _ = converge.step(found(false));
    let pauses = Action::Pause { task, generation, runs_on: false };
    assert_eq!(obey(&mut converge, pause.clone()), std::slice::from_ref(&pauses));
    // Nor does the claim know of orders that its shepherd has yet to read.
    let again = converge.step(found(true));
    assert!(matches!(reported(&again)[..], [TaskIs::Running { .. }]), "{again:?}");
    assert_eq!(obey(&mut converge, pause), [pauses]);
    let paused = converge.step(Input::Halted { task, generation, halting: Halting::Paused });
    assert!(matches!(reported(&paused)[..], [TaskIs::Paused { .. }]), "{paused:?}");
}

/// A resume that is on its way would put the task on devices that another job has by then.
#[test]
fn a_claim_from_before_a_resume_does_not_answer_the_pause_after_it() {
    let mut converge = Converge::default();
    let (term, task) = (Term(1), task(1));
    let found = |generation, is_settled| {
        let is = TaskIs::Paused { pid: 7, started_at: Timestamp::ZERO };
        let report = TaskReport { task, generation: Generation(generation), is };
        Input::Found { report, seats: Seats::default(), is_detached: false, is_settled }
    };
    let halted =
        |generation, halting| Input::Halted { task, generation: Generation(generation), halting };
    let _ = converge.step(found(2, false));
    let (generation, devices) = (Generation(3), Vec::new());
    let _ = obey(&mut converge, Order::Resume { term, task, generation, devices });
    let generation = Generation(4);
    let _ = obey(&mut converge, Order::Pause { term, task, generation, runs_on: false });
    let again = converge.step(found(2, true));
    assert!(matches!(reported(&again)[..], [TaskIs::Running { .. }]), "{again:?}");
    assert_eq!(converge.step(halted(3, Halting::Resumed)), []);
    let paused = converge.step(halted(4, Halting::Paused));
    assert!(matches!(reported(&paused)[..], [TaskIs::Paused { .. }]), "{paused:?}");
    // One that the claim knows of is answered by it.
    let again = converge.step(found(4, true));
    assert!(matches!(reported(&again)[..], [TaskIs::Paused { .. }]), "{again:?}");
}

/// The server repeats an order to resume, if the task is still paused when its terms arrive.
#[test]
fn a_repeated_order_does_not_retry_a_resume_that_did_not_work() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(1, 1, 1));
    let (term, task) = (Term(1), task(1));
    let _ = converge.step(Input::Started { task, pid: 7, started_at: Timestamp::ZERO });
    let (generation, devices) = (Generation(2), Vec::new());
    let _ = obey(&mut converge, Order::Pause { term, task, generation, runs_on: true });
    let _ = converge.step(Input::Halted { task, generation, halting: Halting::Paused });
    let resume = |generation| Order::Resume {
        term,
        task,
        generation: Generation(generation),
        devices: Vec::new(),
    };
    let resumes = |generation| Action::Resume {
        task,
        generation: Generation(generation),
        devices: Vec::new(),
        booked: Vec::new(),
    };
    assert_eq!(obey(&mut converge, resume(3)), [resumes(3)]);
    let halting = Halting::NotMoved { why: "no limit".into(), devices };
    let generation = Generation(3);
    let refused = converge.step(Input::Halted { task, generation, halting });
    assert!(matches!(reported(&refused)[..], [TaskIs::NotMoved { .. }]));
    let again = obey(&mut converge, resume(3));
    assert!(matches!(reported(&again)[..], [TaskIs::NotMoved { .. }]), "{again:?}");
    // The terms of the next order to resume arrive first, and the refusal is not about them.
    let changed = converge.step(Input::Changed { task, generation: Generation(4) });
    assert!(matches!(reported(&changed)[..], [TaskIs::Paused { .. }]), "{changed:?}");
    assert_eq!(obey(&mut converge, resume(4)), [resumes(4)]);
}

#[test]
fn a_stop_before_the_run_order_prevents_the_launch() {
    let mut converge = Converge::default();
    let generation = Generation(2);
    let prevent = Action::Prevent { task: task(1), generation };
    assert_eq!(obey(&mut converge, stop(1, 1, 2)), [prevent]);
    let late = obey(&mut converge, run(1, 1, 1));
    assert_eq!(reported(&late), [&TaskIs::Launching], "not launched");
    let over = Input::Ended { task: task(1), end: end(true) };
    assert_eq!(reported(&converge.step(over)), [&TaskIs::Ended(end(true))]);
}

#[test]
fn a_stop_ends_a_task_that_was_already_launched() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, stop(1, 1, 2));
    let is = TaskIs::Running { pid: 7, started_at: Timestamp::ZERO };
    let found = TaskReport { task: task(1), generation: Generation(1), is: is.clone() };
    let actions = converge.step(Input::Found {
        report: found,
        seats: Seats::default(),
        is_detached: false,
        is_settled: true,
    });
    assert_eq!(reported(&actions), [&is]);
    assert_eq!(actions.last(), Some(&Action::Stop { task: task(1), grace: GRACE, signal: None }));
}

#[test]
fn a_refused_task_is_launched_only_by_a_later_generation() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(1, 1, 1));
    let devices = vec![DeviceUuid::new("GPU-a")];
    let refusal = Input::Refused { task: task(1), devices: devices.clone() };
    assert_eq!(reported(&converge.step(refusal)), [&TaskIs::Refused { devices }]);
    let again = obey(&mut converge, run(1, 1, 1));
    assert!(matches!(reported(&again)[..], [TaskIs::Refused { .. }]), "the same order again");
    assert!(matches!(&obey(&mut converge, run(1, 1, 2))[..], [Action::Launch { .. }]));

    let refusal = Input::Refused { task: task(1), devices: Vec::new() };
    let _ = converge.step(refusal);
    assert_eq!(obey(&mut converge, acknowledge(1, 1)), []);
    assert_eq!(converge.tasks(), []);
    assert_eq!(obey(&mut converge, run(1, 1, 2)), [], "late, and now placed elsewhere");
    assert!(matches!(&obey(&mut converge, run(1, 1, 3))[..], [Action::Launch { .. }]), "came back");
}

#[test]
fn a_late_acknowledgement_of_a_refusal_keeps_the_end_of_the_next_launch() {
    let mut converge = Converge::default();
    let _ = obey(&mut converge, run(1, 1, 1));
    let _ = converge.step(Input::Refused { task: task(1), devices: Vec::new() });
    let _ = obey(&mut converge, run(1, 1, 2));
    let _ = converge.step(ended(1));
    let of_refusal = Order::Acknowledge { term: Term(1), task: task(1), generation: Generation(1) };
    assert_eq!(obey(&mut converge, of_refusal.clone()), [], "the server does not know the end yet");
    assert_eq!(converge.tasks()[0].is, TaskIs::Ended(end(false)));
    // An agent that was restarted in between does not know the task.
    let mut converge = Converge::default();
    assert_eq!(obey(&mut converge, of_refusal), []);
    assert_eq!(obey(&mut converge, run(1, 1, 1)), [], "over");
    assert!(matches!(&obey(&mut converge, run(1, 1, 2))[..], [Action::Launch { .. }]), "not over");
}

#[test]
fn a_signal_is_sent_once_and_only_to_a_running_task() {
    let mut converge = Converge::default();
    let signal = |request| Order::Signal {
        term: Term(1),
        task: task(1),
        signal: 10,
        to: SignalTo::Job,
        request: RequestId(request),
    };
    let sent = [Action::Signal { task: task(1), signal: 10, to: SignalTo::Job }];
    let _ = obey(&mut converge, run(1, 1, 1));
    assert_eq!(obey(&mut converge, signal(1)), [], "too early");
    let _ = converge.step(started(1));
    assert_eq!(obey(&mut converge, signal(1)), [], "its time is over");
    assert_eq!(obey(&mut converge, signal(3)), sent);
    assert_eq!(obey(&mut converge, signal(3)), []);
    assert_eq!(obey(&mut converge, signal(2)), sent);
}

#[test]
fn tasks_of_an_earlier_agent_are_adopted_or_forgotten() {
    let mut converge = Converge::new([task(1)]);
    let is = TaskIs::Ended(end(false));
    let found = |number| {
        let generation = Generation(1);
        let report = TaskReport { task: task(number), generation, is: is.clone() };
        Input::Found { report, seats: Seats::default(), is_detached: false, is_settled: true }
    };
    assert_eq!(converge.step(found(1)), [Action::Forget(task(1))], "acknowledged before");
    assert_eq!(reported(&converge.step(found(2))), [&is]);
    assert_eq!(reported(&obey(&mut converge, run(1, 1, 1))), [&TaskIs::Over]);
    assert_eq!(reported(&obey(&mut converge, run(1, 2, 1))), [&is]);
}

#[test]
fn an_order_for_a_task_whose_end_was_acknowledged_is_answered() {
    let mut converge = Converge::new([task(1)]);
    assert_eq!(reported(&obey(&mut converge, run(1, 1, 9))), [&TaskIs::Over]);
    assert_eq!(reported(&obey(&mut converge, stop(1, 1, 9))), [&TaskIs::Over]);
    assert!(obey(&mut converge, acknowledge(1, 2)).is_empty());
    assert!(obey(&mut converge, run(1, 2, 9)).is_empty(), "it was only refused");
}
