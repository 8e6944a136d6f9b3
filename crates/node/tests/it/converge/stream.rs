//! If orders are lost, repeated or late, each task is launched at most once and ends the same.

#![allow(clippy::unwrap_used)] // A test may end by a panic.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::agent::{Order, Report, TaskIs};
use gpool_model::id::{Round, TaskId, Term};
use gpool_model::unit::Timestamp;
use gpool_node::converge::{Action, Converge, Halting, Input};
use proptest::prelude::*;

use super::{acknowledge, end, run, stop, task};

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
