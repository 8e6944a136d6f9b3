//! If orders are lost, repeated or late, each task is launched at most once and ends the same.

#![allow(clippy::unwrap_used)] // A test may end by a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpool_model::JobRequest;
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
use proptest::prelude::*;

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
        request: RequestId(request),
    };
    let sent = [Action::Signal { task: task(1), signal: 10 }];
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

/// The final state that a server wants for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Running,
    Ended,
}

/// A minimal launcher with its processes.
#[derive(Default)]
struct Machine {
    launches: BTreeMap<TaskId, u32>,
    running: BTreeSet<TaskId>,
    claimed: BTreeSet<TaskId>,
    reports: Vec<Report>,
}

impl Machine {
    /// Carries out actions, and the actions that follow from them.
    fn carry_out(&mut self, converge: &mut Converge, actions: Vec<Action>) {
        for action in actions {
            let follows = match action {
                Action::Launch { order, .. } => {
                    let task = order.task();
                    *self.launches.entry(task).or_default() += 1;
                    self.claimed.insert(task);
                    self.running.insert(task);
                    Some(Input::Started { task, pid: 7, started_at: Timestamp::ZERO })
                }
                Action::Prevent { task, .. } => {
                    assert!(self.claimed.insert(task), "prevented a launched task");
                    Some(Input::Ended { task, end: end(true) })
                }
                Action::Stop { task, .. } => {
                    self.running.remove(&task).then_some(Input::Ended { task, end: end(true) })
                }
                Action::Change { task, generation, .. } => {
                    Some(Input::Changed { task, generation })
                }
                Action::Pause { task, generation, .. } => {
                    Some(Input::Halted { task, generation, halting: Halting::Paused })
                }
                Action::Resume { task, generation, .. } => {
                    Some(Input::Halted { task, generation, halting: Halting::Resumed })
                }
                Action::Detach { .. }
                | Action::Attach { .. }
                | Action::Stay { .. }
                | Action::Signal { .. } => None,
                Action::Report(report) => {
                    self.reports.push(report);
                    None
                }
                Action::Forget(task) => {
                    assert!(!self.running.contains(&task), "forgot a running task");
                    None
                }
            };
            if let Some(input) = follows {
                let actions = converge.step(input);
                self.carry_out(converge, actions);
            }
        }
    }

    fn obey(&mut self, converge: &mut Converge, order: Order) {
        let actions = converge.step(Input::Order(order));
        self.carry_out(converge, actions);
    }
}

/// A server that has just started: it asks for the tasks, and orders the differences.
fn resync(machine: &mut Machine, converge: &mut Converge, term: u64, wanted: &[Wanted]) {
    for _ in 0..3 {
        machine.reports.clear();
        machine.obey(
            converge,
            Order::Sync { term: Term(term), round: Round(1), closed: BTreeSet::new() },
        );
        let Some(Report::Tasks { tasks, .. }) = machine.reports.last().cloned() else {
            panic!("no answer to sync")
        };
        let is = |number| tasks.iter().find(|report| report.task == task(number)).map(|r| &r.is);
        for (number, wanted) in (1..).zip(wanted) {
            match (wanted, is(number)) {
                (Wanted::Running, None) => machine.obey(converge, run(term, number, 1)),
                (Wanted::Running, Some(_)) => {}
                (Wanted::Ended, Some(TaskIs::Ended(_))) => {
                    machine.obey(converge, acknowledge(term, number));
                }
                (Wanted::Ended, _) => machine.obey(converge, stop(term, number, 2)),
            }
        }
    }
}

fn streams() -> impl Strategy<Value = (Vec<Wanted>, Vec<Order>)> {
    let wanted =
        prop::collection::vec(prop_oneof![Just(Wanted::Running), Just(Wanted::Ended)], 1..5);
    wanted.prop_flat_map(|wanted| {
        let mut all = Vec::new();
        for (number, wanted) in (1..).zip(&wanted) {
            all.push(run(1, number, 1));
            if *wanted == Wanted::Ended {
                all.push(stop(1, number, 2));
                all.push(acknowledge(1, number));
            }
        }
        // Any order, each any number of times or not at all.
        let delivered = prop::collection::vec(prop::sample::select(all), 0..30);
        (Just(wanted), delivered)
    })
}

proptest! {
    #[test]
    fn any_loss_repetition_and_order_gives_the_same_result(
        (wanted, delivered) in streams(),
        late in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        let (mut machine, mut converge) = (Machine::default(), Converge::default());
        for order in &delivered {
            // A server acknowledges an end only after the report of it.
            if let Order::Acknowledge { task, .. } = order {
                let over = converge.tasks().iter().any(|report| {
                    report.task == *task && matches!(report.is, TaskIs::Ended(_))
                });
                if !over {
                    continue;
                }
            }
            machine.obey(&mut converge, order.clone());
        }
        resync(&mut machine, &mut converge, 2, &wanted);
        // Late orders of the old server.
        for index in late {
            if !delivered.is_empty() {
                machine.obey(&mut converge, index.get(&delivered).clone());
            }
        }
        for (number, wanted) in (1..).zip(&wanted) {
            let launches = machine.launches.get(&task(number)).copied().unwrap_or(0);
            prop_assert!(launches <= 1, "task {number} was launched {launches} times");
            let is = converge.tasks().into_iter().find(|report| report.task == task(number));
            match wanted {
                Wanted::Running => {
                    prop_assert!(machine.running.contains(&task(number)));
                    let runs = matches!(is.unwrap().is, TaskIs::Running { .. });
                    prop_assert!(runs);
                }
                Wanted::Ended => {
                    prop_assert!(!machine.running.contains(&task(number)));
                    prop_assert!(is.is_none_or(|report| matches!(report.is, TaskIs::Ended(_))));
                }
            }
        }
    }

    #[test]
    fn repetition_within_a_term_changes_nothing((_, delivered) in streams()) {
        let deliver = |times: usize| {
            let (mut machine, mut converge) = (Machine::default(), Converge::default());
            for order in delivered.iter().filter(|it| !matches!(it, Order::Acknowledge { .. })) {
                for _ in 0..times {
                    machine.obey(&mut converge, order.clone());
                }
            }
            (machine.launches, machine.running, converge.tasks())
        };
        prop_assert_eq!(deliver(1), deliver(3));
    }
}

#[test]
fn an_order_for_a_task_whose_end_was_acknowledged_is_answered() {
    let mut converge = Converge::new([task(1)]);
    assert_eq!(reported(&obey(&mut converge, run(1, 1, 9))), [&TaskIs::Over]);
    assert_eq!(reported(&obey(&mut converge, stop(1, 1, 9))), [&TaskIs::Over]);
    assert!(obey(&mut converge, acknowledge(1, 2)).is_empty());
    assert!(obey(&mut converge, run(1, 2, 9)).is_empty(), "it was only refused");
}
