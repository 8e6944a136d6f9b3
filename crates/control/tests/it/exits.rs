//! The exits of evicted jobs, through the state machine.

use gpool_model::agent::{Order, TaskIs};
use gpool_model::job::Again;
use gpool_model::job::{EndCause, ExitStatus, JobState};
use gpool_model::*;

use crate::harness::*;

/// A job that a higher priority preempts, with these exits.
fn gives_way(exits: &[Exit]) -> NewJob {
    let mut new = job("1").with(|it| it.standing.priority = -1);
    new.life.preemptible = Some(true);
    new.life.exits = exits.iter().copied().collect();
    new
}

fn one_device() -> Harness {
    Harness::with_policy(1, Policy::from_preset("priority").expect("there is one"))
}

#[test]
fn a_job_that_checkpoints_gets_its_signal_and_runs_again_as_its_next_attempt() {
    let mut harness = one_device();
    let mut new = gives_way(&[Exit::Checkpoint, Exit::Kill]);
    let grace = Some(Millis::from_mins(5));
    new.life.checkpoint = Some(Checkpoint { signal: 10, grace }).into();
    new.life.retry = Some(Box::new(gpool_model::life::Retry {
        most: 1,
        on: std::collections::BTreeSet::new(),
        exits: std::collections::BTreeSet::new(),
        backoff: Millis::ZERO,
    }));
    let victim = harness.add(new);
    harness.started(victim);
    harness.take_orders();
    let winner = harness.add(job("1"));
    let orders = harness.take_orders();
    let [Order::Stop { grace: told, signal, .. }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!((Some(*told), *signal), (grace, Some(10)));
    // After a restart the order is sent again unchanged.
    let now = harness.now;
    harness.say(victim, TaskIs::Ended(end(now, Some(ExitStatus::Code(0)), true)));
    assert_eq!(harness.state(victim), JobState::Pending);
    assert_eq!(harness.state(winner), JobState::Starting);
    let job = &harness.control.world().job(victim).expect("it is there").job;
    assert_eq!((job.attempt, job.course.n_retries), (Attempt(2), 0));
    let again = &job.course.past[0].again;
    assert!(matches!(again, Again::TakenBack { exit: Exit::Checkpoint, .. }), "{again:?}");
}

#[test]
fn a_job_cancelled_during_its_checkpoint_gets_no_more_time() {
    let mut harness = one_device();
    let victim = harness.add(gives_way(&[Exit::Checkpoint]));
    harness.started(victim);
    harness.add(job("1"));
    harness.take_orders();
    harness.command(&ana(), Command::on(vec![victim], JobVerb::Cancel)).expect("it is hers");
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { signal: None, .. }]), "{orders:?}");
}

#[test]
fn a_job_with_exit_kill_does_not_run_again() {
    let mut harness = one_device();
    let victim = harness.add(gives_way(&[Exit::Kill]));
    harness.started(victim);
    let winner = harness.add(job("1"));
    let now = harness.now;
    harness.say(victim, TaskIs::Ended(end(now, Some(ExitStatus::Signal(15)), true)));
    let ended = harness.end_of(victim);
    assert_eq!(ended.outcome, Outcome::Cancelled);
    let cause = EndCause::TakenBack { why: TakenBack::Preempt, beneficiary: winner };
    assert_eq!(ended.cause, Some(cause));
}

#[test]
fn exits_that_can_not_be_are_refused_when_they_are_asked_for() {
    let mut harness = one_device();
    let refused = |harness: &mut Harness, new: NewJob| {
        matches!(
            harness.submit(&ana(), vec![new]),
            Err(Refusal::Invalid { field, .. }) if field == "exits"
        )
    };
    assert!(refused(&mut harness, gives_way(&[Exit::Pause])));
    let mut never = gives_way(&[Exit::Requeue]);
    never.life.requeue = Some(false);
    assert!(refused(&mut harness, never));
    assert!(!refused(&mut harness, gives_way(&[Exit::Pause, Exit::Kill])));
}

/// Returns a paused job, the job that it was paused for, and the orders.
fn paused_for_another() -> (Harness, JobId, JobId) {
    let mut harness = one_device();
    let mut new = gives_way(&[Exit::Pause, Exit::Requeue]);
    new.memory = Some(Bytes::from_gib(8));
    let victim = harness.add(new);
    harness.started(victim);
    harness.take_orders();
    let winner = harness.add(job("1"));
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Pause { .. }]), "{orders:?}");
    assert_eq!(harness.state(victim), JobState::Paused);
    harness.say(victim, paused());
    assert!(matches!(harness.take_orders()[..], [Order::Run(_)]));
    (harness, victim, winner)
}

fn paused() -> TaskIs {
    TaskIs::Paused { pid: 4242, started_at: Timestamp::new(1_000_000) }
}

fn running() -> TaskIs {
    TaskIs::Running { pid: 4242, started_at: Timestamp::new(1_000_000) }
}

impl Harness {
    fn says(&self, id: JobId, is: TaskIs) -> agent::TaskReport {
        let generation = self.control.world().job(id).expect("it lives").job.generation;
        agent::TaskReport { task: self.task_of(id), generation, is }
    }

    fn hears_again(&mut self, reports: Vec<agent::TaskReport>) -> Vec<Order> {
        self.restart();
        self.report(inventory(1));
        let term = self.term();
        self.report(tasks(term, reports));
        let mut orders = self.take_orders();
        orders.retain(|order| !matches!(order, Order::Sync { .. }));
        orders
    }
}

#[test]
fn a_job_paused_for_another_resumes_as_the_same_attempt() {
    let (mut harness, victim, winner) = paused_for_another();
    let node = &harness.control.world().nodes()[0];
    assert_eq!(node.memory.now, i64::try_from(Bytes::from_gib(56).get()).expect("it fits"));
    harness.started(winner);
    harness.now = harness.now.after(Millis::from_hours(1));
    harness.exited(winner, 0);
    let orders = harness.take_orders();
    let goes_on = orders.iter().any(|order| matches!(order, Order::Resume { .. }));
    assert!(goes_on, "{orders:?}");
    assert_eq!(harness.state(victim), JobState::Running);
    let job = &harness.control.world().job(victim).expect("it is there").job;
    assert_eq!((job.attempt, job.course.paused), (Attempt::FIRST, Millis::from_hours(1)));
    assert!(job.course.past.is_empty());
    harness.exited(victim, 0);
    assert_eq!(harness.end_of(victim).outcome, Outcome::Succeeded);
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}

#[test]
fn a_job_that_can_not_be_paused_leaves_by_the_next_exit() {
    let mut harness = one_device();
    let victim = harness.add(gives_way(&[Exit::Pause, Exit::Checkpoint]));
    harness.started(victim);
    harness.add(job("1"));
    harness.take_orders();
    let why = "it has managed memory".to_owned();
    let is = TaskIs::NotPaused { pid: 4242, started_at: harness.now, why };
    harness.say(victim, is);
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { signal: Some(15), .. }]), "{orders:?}");
    assert_eq!(harness.state(victim), JobState::Stopping);
}

#[test]
fn a_claim_on_a_job_that_can_not_be_paused_is_given_up() {
    let policy = Policy::from_preset("priority").expect("there is one");
    let mut harness = Harness::with_policy(2, policy);
    let [keeps, victim] = [(); 2].map(|()| {
        let id = harness.add(gives_way(&[Exit::Pause, Exit::Requeue]));
        harness.started(id);
        id
    });
    harness.command(&ana(), Command::on(vec![keeps], JobVerb::Pause)).expect("hers");
    let waits = harness.add(job("2"));
    assert_eq!(harness.state(victim), JobState::Paused, "for the job that waits");
    assert_eq!(harness.state(waits), JobState::Starting, "it claims both devices");
    let why = "it has managed memory".to_owned();
    let is = TaskIs::NotPaused { pid: 4242, started_at: harness.now, why };
    harness.say(keeps, is);
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
    // The next cycle takes its devices by the next exit.
    assert_eq!(harness.state(keeps), JobState::Stopping);
    assert_eq!(harness.state(waits), JobState::Starting);
}

#[test]
fn a_job_that_resumes_gives_up_its_claim_on_a_job_that_can_not_be_paused() {
    let policy = Policy::from_preset("priority").expect("there is one");
    let mut harness = Harness::with_policy(2, policy);
    let waits = harness.add(job("2"));
    harness.started(waits);
    harness.command(&ana(), Command::on(vec![waits], JobVerb::Pause)).expect("hers");
    harness.say(waits, paused());
    let [keeps, victim] = [(); 2].map(|()| {
        let id = harness.add(gives_way(&[Exit::Pause, Exit::Requeue]));
        harness.started(id);
        id
    });
    harness.command(&ana(), Command::on(vec![keeps], JobVerb::Pause)).expect("hers");
    harness.command(&ana(), Command::on(vec![waits], JobVerb::Resume)).expect("hers");
    assert_eq!(harness.state(victim), JobState::Paused, "for the job that resumes");
    let why = "it has managed memory".to_owned();
    let is = TaskIs::NotPaused { pid: 4242, started_at: harness.now, why };
    harness.say(keeps, is);
    // The next cycle takes its devices by the next exit.
    assert_eq!(harness.state(keeps), JobState::Stopping);
    assert_eq!(harness.state(waits), JobState::Paused);
    harness.say(victim, paused());
    let now = harness.now;
    harness.say(keeps, TaskIs::Ended(end(now, Some(ExitStatus::Code(0)), true)));
    assert_eq!(harness.state(waits), JobState::Running);
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}

#[test]
fn a_pause_and_its_resume_survive_a_restart() {
    let (mut harness, victim, winner) = paused_for_another();
    harness.started(winner);
    let reports = vec![harness.says(victim, paused()), harness.says(winner, running())];
    assert_eq!(harness.hears_again(reports), []);
    assert_eq!(harness.state(victim), JobState::Paused);
    // A job that runs although it should be paused is ordered again; so is the reverse.
    let reports = vec![harness.says(victim, running()), harness.says(winner, running())];
    let orders = harness.hears_again(reports);
    assert!(matches!(orders[..], [Order::Pause { .. }]), "{orders:?}");
    harness.exited(winner, 0);
    assert_eq!(harness.state(victim), JobState::Running);
    let reports = vec![harness.says(victim, paused())];
    let orders = harness.hears_again(reports);
    assert!(orders.iter().any(|order| matches!(order, Order::Resume { .. })), "{orders:?}");
}

#[test]
fn a_paused_job_that_is_cancelled_or_requeued_leaves_without_its_devices() {
    let (mut harness, victim, winner) = paused_for_another();
    harness.started(winner);
    harness
        .command(&ana(), Command::on(vec![victim], JobVerb::Requeue { hold: false }))
        .expect("hers");
    let orders = harness.take_orders();
    assert!(matches!(orders[..], [Order::Stop { .. }]), "{orders:?}");
    assert_eq!(harness.control.world().nodes()[0].devices[0].holders.len(), 1);
    let now = harness.now;
    harness.say(victim, TaskIs::Ended(end(now, Some(ExitStatus::Signal(15)), true)));
    assert_eq!(harness.state(victim), JobState::Pending);
    let job = &harness.control.world().job(victim).expect("it is there").job;
    assert_eq!((job.attempt, job.course.paused), (Attempt(2), Millis::ZERO));
}

#[test]
fn a_job_paused_by_a_user_resumes_on_request() {
    let mut harness = one_device();
    let id = harness.add(job("1"));
    harness.started(id);
    harness.command(&ana(), Command::on(vec![id], JobVerb::Pause)).expect("it is hers");
    harness.say(id, paused());
    let other = harness.add(job("1"));
    assert_eq!(harness.state(other), JobState::Starting, "its device is free");
    harness.started(other);
    harness.exited(other, 0);
    assert_eq!(harness.state(id), JobState::Paused, "no user has resumed it");
    harness.command(&ana(), Command::on(vec![id], JobVerb::Resume)).expect("it is hers");
    assert_eq!(harness.state(id), JobState::Running);
    let refused = harness.command(&bo(), Command::on(vec![id], JobVerb::Pause));
    assert!(matches!(refused, Err(Refusal::NotPermitted { .. })));
    assert!(harness.alerts.is_empty(), "{:?}", harness.alerts);
}

#[test]
fn a_job_that_is_taken_back_has_no_longer_to_save_than_the_policy_and_its_project_allow() {
    let grace_of = |policy: Policy, project: Option<Millis>| {
        let mut harness = Harness::with_policy(1, policy);
        let mut new = gives_way(&[Exit::Checkpoint]);
        let grace = Some(Millis::from_hours(24));
        new.life.checkpoint = Some(Checkpoint { signal: 10, grace }).into();
        if let Some(most) = project {
            use gpool_model::project_change::{
                ProjectChange, ProjectChangeHow, ProjectPatch, ProjectsAsk,
            };
            let patch = Box::new(ProjectPatch {
                save_time_max: Some(Some(most)),
                ..ProjectPatch::default()
            });
            let how = ProjectChangeHow::Edit { version: None, patch };
            let changes = vec![ProjectChange { name: ProjectName::new("default"), how }];
            let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
            harness.command(&root(), Command::ChangeProjects(ask)).expect("root may");
        }
        let victim = harness.add(new);
        harness.started(victim);
        harness.take_orders();
        harness
            .submit(&root(), vec![job("1").with(|it| it.standing.priority = 5)])
            .expect("root may");
        let stop = harness.take_orders().into_iter().find_map(|order| match order {
            Order::Stop { grace, signal, .. } => Some((grace, signal)),
            _ => None,
        });
        stop.expect("it is told to leave")
    };
    let policy = || Policy::from_preset("priority").expect("there is one");
    assert_eq!(grace_of(policy(), None), (Millis::from_mins(10), Some(10)));
    let longer = Policy { save_time_max: Millis::from_hours(48), ..policy() };
    assert_eq!(grace_of(longer.clone(), None), (Millis::from_hours(24), Some(10)));
    let of_project = grace_of(longer, Some(Millis::from_mins(3)));
    assert_eq!(of_project, (Millis::from_mins(3), Some(10)));
    // A project does not allow more than the policy.
    let more = grace_of(policy(), Some(Millis::from_hours(5)));
    assert_eq!(more, (Millis::from_mins(10), Some(10)));
}
