//! Orders to agents and reports from them may be lost, late or repeated.

use gpool_model::agent::{Order, Report, Stamp, TaskIs, TaskReport};
use gpool_model::job::{EndCause, JobState};
use gpool_model::{
    Command, DeviceHealth, DeviceUuid, Event, Generation, Incarnation, JobVerb, Membership, Millis,
    NewJob, NodeName, OnNodeLost, Outcome, Reason, Refusal, Reply, Round, Silence, TaskId,
    Timestamp,
};

use crate::harness::{Harness, NODE, ana, inventory, job, root, stamp, tasks};

impl Harness {
    /// Lets time pass until something is due.
    fn pass_to_timer(&mut self) -> Millis {
        let due = self.control.next_timer().expect("something is due");
        let passed = due.since(self.now);
        self.now = self.now.max(due);
        self.step(vec![Event::TimerFired]);
        passed
    }

    /// Answers the newest question among these orders, as the agent.
    fn answer(&mut self, orders: &[Order], known: Vec<TaskReport>) {
        let asked = orders.iter().rev().find_map(|order| match order {
            Order::Sync { term, round, .. } => Some((*term, *round)),
            _ => None,
        });
        let (term, round) = asked.expect("it was asked");
        self.report(Report::Tasks { stamp: stamp(), term, round, tasks: known });
    }
}

fn says(task: TaskId, generation: u64, is: TaskIs) -> TaskReport {
    TaskReport { task, generation: Generation(generation), is }
}

fn runs(orders: &[Order]) -> Vec<u64> {
    let run = |order: &Order| match order {
        Order::Run(run) => Some(run.generation.0),
        _ => None,
    };
    orders.iter().filter_map(run).collect()
}

#[test]
fn a_lost_start_is_ordered_again_within_the_term() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    assert_eq!(runs(&harness.take_orders()), [1], "this one is lost");
    assert!(harness.pass_to_timer() <= Millis::from_secs(5));
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Sync { .. }]), "{orders:?}");
    harness.answer(&orders, vec![]);
    assert_eq!(runs(&harness.take_orders()), [1]);
    assert_eq!(harness.state(id), JobState::Starting);
}

#[test]
fn a_lost_stop_is_ordered_again_within_the_term() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    let task = harness.task_of(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("own job");
    let first = harness.take_orders();
    harness.pass_to_timer();
    let orders = harness.take_orders();
    let is = TaskIs::Running { pid: 1, started_at: harness.now };
    harness.answer(&orders, vec![says(task, 1, is)]);
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { task: told, .. }] if told == task), "{orders:?}");
    // The order has the full grace: the clock may have been changed in between.
    assert_eq!(orders.last(), first.last());
}

#[test]
fn an_agent_with_an_answer_that_fits_is_asked_rarely() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    let task = harness.task_of(id);
    harness.started(id);
    for _ in 0..2 {
        let orders = harness.take_orders();
        if orders.iter().any(|order| matches!(order, Order::Sync { .. })) {
            let is = TaskIs::Running { pid: 1, started_at: harness.now };
            harness.answer(&orders, vec![says(task, 1, is)]);
        }
        harness.pass_to_timer();
    }
    let revision = harness.control.revision();
    let orders = harness.take_orders();
    let is = TaskIs::Running { pid: 1, started_at: harness.now };
    harness.answer(&orders, vec![says(task, 1, is)]);
    assert_eq!(harness.pass_to_timer(), Millis::from_secs(60));
    assert_eq!(harness.control.revision(), revision, "an answer that fits changes nothing");
}

#[test]
fn an_inventory_that_comes_late_is_not_taken_for_news() {
    let mut harness = Harness::new(1);
    let mut late = inventory(1);
    if let Report::Inventory { stamp, .. } = &mut late {
        // It was sent right after the first.
        stamp.sequence = 2;
    }
    let mut now = inventory(1);
    if let Report::Inventory { devices, .. } = &mut now {
        devices[0].health = DeviceHealth::Lost;
    }
    harness.report(now);
    let waiting = harness.add(job("1"));
    harness.report(late);
    assert_eq!(harness.state(waiting), JobState::Pending, "the device is still lost");
    harness.report(inventory(1));
    assert_eq!(harness.state(waiting), JobState::Starting);
}

#[test]
fn an_answer_of_an_agent_without_an_inventory_ends_nothing() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.restart();
    let orders = harness.take_orders();
    harness.answer(&orders, vec![]);
    assert_eq!(harness.state(id), JobState::Running, "perhaps it is after a reboot");
    let other = Stamp { incarnation: Incarnation::new("another"), sequence: 1 };
    harness.report(inventory(1));
    let term = harness.term();
    harness.report(Report::Tasks { stamp: other, term, round: Round(1), tasks: vec![] });
    assert_eq!(harness.state(id), JobState::Running, "of another agent than the inventory");
}

#[test]
fn a_start_after_a_refusal_is_ordered_again_if_the_agent_knows_only_the_refusal() {
    let mut harness = Harness::new(2);
    let id = harness.add(job("1"));
    let task = harness.task_of(id);
    let refused = || TaskIs::Refused { devices: vec![DeviceUuid::new("GPU-0")] };
    harness.say(id, refused());
    assert_eq!(harness.state(id), JobState::Starting, "placed anew at once");
    harness.take_orders();
    harness.pass_to_timer();
    let orders = harness.take_orders();
    harness.answer(&orders, vec![says(task, 1, refused())]);
    assert_eq!(runs(&harness.take_orders()), [2]);
}

#[test]
fn a_cancelled_start_of_which_nothing_is_known_ends_only_when_it_can_no_more_begin() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    let task = harness.task_of(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("own job");
    harness.restart();
    harness.report(inventory(1));
    harness.take_orders();
    harness.report(tasks(harness.term(), vec![]));
    assert_eq!(harness.state(id), JobState::Stopping, "a shepherd may be about to claim it");
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { task: told, .. }] if told == task), "{orders:?}");
    let prevented = TaskIs::Ended(crate::harness::end(harness.now, None, true));
    harness.say(id, prevented);
    assert_eq!(harness.state(id), JobState::Cancelled);
}

#[test]
fn a_task_that_an_agent_spoke_of_is_not_missing_from_an_answer_that_comes_after() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    let task = harness.task_of(id);
    harness.restart();
    harness.report(inventory(1));
    let late = tasks(harness.term(), vec![]);
    let is = TaskIs::Running { pid: 1, started_at: harness.now };
    harness.report(Report::Task(says(task, 1, is)));
    harness.report(late);
    assert_eq!(
        harness.state(id),
        JobState::Running,
        "claimed late, by an earlier agent's shepherd"
    );
}

#[test]
fn a_launch_that_was_refused_since_is_not_ended_when_it_is_heard_of_late() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    let task = harness.task_of(id);
    let mut lost = inventory(1);
    if let Report::Inventory { devices, .. } = &mut lost {
        devices[0].health = DeviceHealth::Lost;
    }
    harness.report(lost);
    harness.say(id, TaskIs::Refused { devices: vec![DeviceUuid::new("GPU-0")] });
    assert_eq!(harness.state(id), JobState::Pending);
    harness.take_orders();
    harness.report(Report::Task(says(task, 1, TaskIs::Launching)));
    assert_eq!(harness.take_orders(), [], "it may come back here");
}

#[test]
fn a_new_agent_is_asked_before_anything_is_placed_with_it() {
    let mut harness = Harness::new(1);
    let mut report = inventory(1);
    if let Report::Inventory { stamp, .. } = &mut report {
        stamp.incarnation = Incarnation::new("the next one");
    }
    harness.report(report);
    assert!(matches!(harness.take_orders()[..], [Order::Sync { .. }]));
    let id = harness.add(job("1"));
    assert_eq!(harness.state(id), JobState::Pending);
}

fn silence(since: Option<Timestamp>) -> Event {
    let silence = since.map(|since| Silence { since, is_lost: false });
    Event::AgentSilence { node: NodeName::new(NODE), silence }
}

#[test]
fn a_silent_node_gets_no_jobs_until_it_is_heard_and_its_jobs_go_on() {
    let mut harness = Harness::new(2);
    let running = harness.add(job("1"));
    harness.started(running);
    let heard_at = harness.now;
    harness.now = harness.now.after(Millis::from_secs(16));
    harness.step(vec![silence(Some(heard_at))]);
    harness.take_orders();
    let waiting = harness.add(job("1"));
    assert_eq!(harness.take_orders(), []);
    assert_eq!(harness.state(waiting), JobState::Pending);
    assert_eq!(harness.state(running), JobState::Running);
    let unreachable = Reason::AgentUnreachable { node: NodeName::new(NODE), since: Some(heard_at) };
    assert_eq!(harness.why(waiting), [unreachable]);
    harness.step(vec![silence(None)]);
    let orders = harness.take_orders();
    assert!(orders.iter().any(|order| matches!(order, Order::Sync { .. })), "{orders:?}");
    assert_eq!(runs(&orders), [1]);
    assert_eq!(harness.state(waiting), JobState::Starting);
}

#[test]
fn a_start_that_a_silent_node_did_not_get_is_ordered_again() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    assert_eq!(runs(&harness.take_orders()), [1], "this one is lost");
    harness.step(vec![silence(Some(harness.now))]);
    assert_eq!(harness.state(id), JobState::Starting, "it may run there");
    harness.take_orders();
    harness.step(vec![silence(None)]);
    let orders = harness.take_orders();
    harness.answer(&orders, vec![]);
    assert_eq!(runs(&harness.take_orders()), [1]);
}

fn lost(since: Timestamp) -> Event {
    Event::AgentSilence {
        node: NodeName::new(NODE),
        silence: Some(Silence { since, is_lost: true }),
    }
}

fn on_node_lost(gpus: &str, on_node_lost: OnNodeLost) -> NewJob {
    let mut job = job(gpus);
    job.life.on_node_lost = on_node_lost;
    job
}

fn membership(harness: &Harness) -> Membership {
    let row = harness.control.world().node(&NodeName::new(NODE));
    row.expect("it is there").node.membership()
}

#[test]
fn the_loss_of_a_node_ends_its_fenced_jobs_and_no_others() {
    let mut harness = Harness::new(4);
    let [waits, again, ends, never] =
        [OnNodeLost::Wait, OnNodeLost::Requeue, OnNodeLost::End, OnNodeLost::Requeue]
            .map(|on| harness.add(on_node_lost("1", on)));
    for id in [waits, again, ends] {
        harness.started(id);
    }
    let first = [again, never].map(|id| harness.task_of(id));
    harness.step(vec![silence(Some(harness.now))]);
    assert_eq!(membership(&harness), Membership::Silent);
    assert_eq!(harness.state(again), JobState::Running, "its lease may not be over");
    assert!(harness.readmitted.is_empty());
    harness.step(vec![lost(harness.now)]);
    assert_eq!(membership(&harness), Membership::Lost);
    assert_eq!(harness.readmitted, [NodeName::new(NODE)]);
    assert_eq!(harness.state(waits), JobState::Running);
    assert_eq!(harness.state(again), JobState::Pending);
    assert_eq!(harness.state(never), JobState::Pending, "its order may be on its way");
    let end = harness.end_of(ends);
    assert_eq!((end.outcome, end.cause.clone()), (Outcome::Lost, Some(EndCause::NodeLost)));
    // It is heard again: what its agent says of the old runs changes nothing.
    harness.take_orders();
    harness.step(vec![silence(None)]);
    assert_eq!(membership(&harness), Membership::Connected);
    let orders = harness.take_orders();
    assert_eq!(runs(&orders).len(), 2);
    for (id, task) in [again, never].into_iter().zip(first) {
        assert_eq!(harness.task_of(id).attempt, task.attempt.next());
        let running = TaskIs::Running { pid: 4242, started_at: harness.now };
        harness.report(Report::Task(says(task, 1, running)));
        let orders = harness.take_orders();
        let is_stop = |it: &Order| matches!(it, Order::Stop { task: of, .. } if *of == task);
        assert!(orders.iter().any(is_stop), "{orders:?}");
        assert_eq!(harness.state(id), JobState::Starting);
    }
}

#[test]
fn a_cancelled_job_of_a_lost_node_is_cancelled() {
    let mut harness = Harness::new(1);
    let id = harness.add(on_node_lost("1", OnNodeLost::Requeue));
    harness.started(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).unwrap();
    harness.step(vec![lost(harness.now)]);
    assert_eq!(harness.end_of(id).outcome, Outcome::Cancelled);
}

#[test]
fn the_lease_is_renewed_only_after_the_orders_from_before_the_loss_have_left() {
    let mut harness = Harness::new(1);
    harness.slow_store();
    let jobs = vec![on_node_lost("1", OnNodeLost::Requeue)];
    let submit =
        Command::Submit { jobs, key: None, ends: vec![], array_ends: vec![], dry_run: false };
    harness.ask(&ana(), submit);
    harness.step(vec![lost(harness.now)]);
    harness.step(vec![silence(None)]);
    assert!(harness.readmitted.is_empty());
    harness.catch_up();
    assert_eq!(harness.readmitted, [NodeName::new(NODE)]);
    let is_run = |it: &&Order| matches!(it, Order::Run(_));
    assert_eq!(harness.orders.iter().filter(is_run).count(), 2, "of two attempts");
}

#[test]
fn a_job_that_can_not_be_requeued_does_not_run_elsewhere() {
    let mut harness = Harness::new(1);
    let mut job = on_node_lost("1", OnNodeLost::Requeue);
    job.life.requeue = Some(false);
    let refused = harness.submit(&ana(), vec![job]).unwrap_err();
    let is_it = matches!(&refused, Refusal::Invalid { field, .. } if field == "on_node_lost");
    assert!(is_it, "{refused:?}");
}

fn remove(harness: &mut Harness, is_off: bool) -> Result<Reply, Refusal> {
    harness.command(&root(), Command::RemoveNode { node: NodeName::new(NODE), is_off })
}

#[test]
fn only_a_node_that_does_not_answer_and_is_not_in_use_is_removed() {
    let name = NodeName::new(NODE);
    let mut harness = Harness::new(4);
    let running = harness.add(job("1"));
    harness.started(running);
    assert_eq!(remove(&mut harness, true), Err(Refusal::NodeAnswers { name: name.clone() }));
    let of_user = harness.command(&ana(), Command::RemoveNode { node: name.clone(), is_off: true });
    assert!(matches!(of_user, Err(Refusal::NotPermitted { .. })), "{of_user:?}");
    harness.step(vec![lost(harness.now)]);
    let in_use =
        Refusal::NodeInUse { name: name.clone(), jobs: vec![running], reservations: vec![] };
    assert_eq!(remove(&mut harness, false), Err(in_use), "it may still run there");
    assert_eq!(harness.state(running), JobState::Running);
    assert_eq!(remove(&mut harness, true), Ok(Reply::Done));
    let end = harness.end_of(running);
    assert_eq!((end.outcome, end.cause.clone()), (Outcome::Lost, Some(EndCause::NodeLost)));
    assert!(harness.control.world().node(&name).is_none());
    assert_eq!(remove(&mut harness, true), Err(Refusal::NoSuchNode { name: name.clone() }));
    // The record is gone too.
    harness.restart();
    assert!(harness.control.world().node(&name).is_none());
}

#[test]
fn a_removed_node_that_reports_again_joins_and_ends_what_it_should_not_run() {
    let mut harness = Harness::new(1);
    let id = harness.add(on_node_lost("1", OnNodeLost::Requeue));
    harness.started(id);
    let first = harness.task_of(id);
    harness.step(vec![lost(harness.now)]);
    assert_eq!(remove(&mut harness, true), Ok(Reply::Done));
    assert_eq!(harness.state(id), JobState::Pending);
    harness.take_orders();
    harness.report(inventory(1));
    let orders = harness.take_orders();
    assert_eq!(membership(&harness), Membership::Joining);
    let running = TaskIs::Running { pid: 4242, started_at: harness.now };
    harness.answer(&orders, vec![says(first, 1, running)]);
    let orders = harness.take_orders();
    let is_stop = |it: &Order| matches!(it, Order::Stop { task, .. } if *task == first);
    assert!(orders.iter().any(is_stop), "{orders:?}");
    assert_ne!(harness.state(id), JobState::Running);
}

#[test]
fn an_agent_that_is_heard_after_the_removal_of_its_node_is_asked() {
    let mut harness = Harness::new(1);
    harness.step(vec![lost(harness.now)]);
    assert_eq!(remove(&mut harness, true), Ok(Reply::Done));
    harness.take_orders();
    harness.step(vec![silence(None)]);
    let orders = harness.take_orders();
    assert!(matches!(orders.as_slice(), [Order::Sync { .. }]), "{orders:?}");
}
