//! Only an admin starts a job that an admin stopped, whichever command would start it.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::agent::TaskIs;
use gpool_model::job::{EndCause, ExitStatus, Holder, JobState};
use gpool_model::life::Retry;
use gpool_model::project_change::{ProjectChange, ProjectChangeHow, ProjectPatch, ProjectsAsk};
use gpool_model::*;

use crate::harness::{Harness, ana, bo, end, job, root};

fn release(id: JobId) -> Command {
    Command::on(vec![id], JobVerb::Release { at: None })
}

fn requeue(id: JobId, hold: bool) -> Command {
    Command::on(vec![id], JobVerb::Requeue { hold })
}

/// Tries every command that could let an owner start the job.
fn starts(harness: &mut Harness, caller: &Caller, id: JobId) -> Vec<(&'static str, Refusal)> {
    let later = harness.now.after(Millis::from_mins(1));
    let commands = [
        ("release", release(id)),
        ("release --at", Command::on(vec![id], JobVerb::Release { at: Some(later) })),
        ("resume", Command::on(vec![id], JobVerb::Resume)),
        ("requeue", requeue(id, false)),
        ("requeue --hold", requeue(id, true)),
    ];
    let mut refused = Vec::new();
    for (name, command) in commands {
        refused.push((name, harness.command(caller, command).expect_err(name)));
    }
    refused
}

fn paused() -> TaskIs {
    TaskIs::Paused { pid: 4242, started_at: Timestamp::new(1_000_000) }
}

fn project(harness: &mut Harness, name: &str, admin: &str) {
    let admins = Some(BTreeSet::from([Arc::from(admin)]));
    let patch = Box::new(ProjectPatch { admins, ..ProjectPatch::default() });
    let how = ProjectChangeHow::Create { patch };
    let changes = vec![ProjectChange { name: ProjectName::new(name), how }];
    let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
    harness.command(&root(), Command::ChangeProjects(ask)).expect("root may");
}

fn assert_refused(refused: &[(&str, Refusal)], by: &str) {
    for (name, refusal) in refused {
        match refusal {
            Refusal::HeldByAdmin { hold: Some(hold), .. } => assert_eq!(&*hold.by, by, "{name}"),
            Refusal::WrongState { .. } => {}
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn an_owner_can_not_start_a_job_that_an_admin_paused() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.command(&root(), Command::on(vec![id], JobVerb::Pause)).expect("root may");
    harness.say(id, paused());
    let refused = starts(&mut harness, &ana(), id);
    assert_refused(&refused, "root");
    let n_holds = refused.iter().filter(|it| it.1.code() == Code(511)).count();
    assert_eq!(n_holds, 5, "{refused:?}");
    // The owner's own pause and hold do not replace the admin's.
    harness.command(&ana(), Command::on(vec![id], JobVerb::Pause)).expect("hers");
    harness.command(&ana(), Command::on(vec![id], JobVerb::Hold)).expect("hers");
    assert_refused(&starts(&mut harness, &ana(), id), "root");
    harness.command(&root(), Command::on(vec![id], JobVerb::Resume)).expect("root may");
    assert_eq!(harness.state(id), JobState::Running);
    harness.command(&ana(), requeue(id, false)).expect("hers again");
}

#[test]
fn an_owner_can_not_start_a_job_that_an_admin_requeued_with_a_hold() {
    let mut harness = Harness::new(1);
    let id = harness.add(job("1"));
    harness.started(id);
    harness.command(&root(), requeue(id, true)).expect("root may");
    let now = harness.now;
    harness.say(id, TaskIs::Ended(end(now, Some(ExitStatus::Signal(15)), true)));
    assert_eq!(harness.state(id), JobState::Held);
    harness.restart();
    assert_refused(&starts(&mut harness, &ana(), id), "root");
    harness.command(&ana(), Command::on(vec![id], JobVerb::Cancel)).expect("an owner may end it");
    assert_eq!(harness.state(id), JobState::Cancelled);
}

#[test]
fn a_hold_outlives_the_attempt_that_it_was_made_in() {
    for (who, holder) in [(root(), Holder::Admin), (ana(), Holder::User)] {
        let mut harness = Harness::new(1);
        let retry =
            Retry { most: 3, on: BTreeSet::new(), exits: BTreeSet::new(), backoff: Millis::ZERO };
        let life = Life { retry: Some(Box::new(retry)), ..Life::default() };
        let id = harness.add(job("1").with(|it| it.life = life));
        harness.started(id);
        harness.command(&who, Command::on(vec![id], JobVerb::Pause)).expect("it may");
        harness.say(id, paused());
        let mut lost = end(harness.now, None, false);
        lost.cause = Some(EndCause::Rebooted);
        harness.say(id, TaskIs::Ended(lost));
        let job = &harness.control.world().job(id).expect("it is run again").job;
        assert_eq!((job.phase.state(), job.holder()), (JobState::Held, Some(holder)));
    }
}

#[test]
fn elements_of_an_array_that_an_admin_stopped_stay_so() {
    let mut harness = Harness::new(1);
    let spec =
        ArraySpec { indexes: Indexes::first_n(4).expect("few"), values: None, objective: None };
    let array = Some(Box::new(spec));
    let id = harness.add(job("1").with(|it| it.array = array));
    let element = |index| JobId { number: id.number, element: Some(index) };
    harness.started(element(0));
    harness.command(&root(), Command::on(vec![id], JobVerb::Pause)).expect("root may");
    harness.say(element(0), paused());
    harness.command(&root(), Command::on(vec![id], JobVerb::Hold)).expect("root may");
    for which in [id, element(0), element(2)] {
        assert_refused(&starts(&mut harness, &ana(), which), "root");
    }
    harness.command(&root(), release(id)).expect("root may");
    let job = &harness.control.world().job(element(0)).expect("it is there").job;
    assert_eq!((job.holder(), &job.course.admin_hold), (None, &None));
}

#[test]
fn an_admin_of_a_project_is_one_for_its_jobs_and_none_against_the_server() {
    let mut harness = Harness::new(1);
    project(&mut harness, "red", "bo");
    let red = job("0").with(|it| it.project = ProjectName::new("red"));
    let id = harness.add(red);
    harness.started(id);
    harness.command(&bo(), Command::on(vec![id], JobVerb::Pause)).expect("an admin of the project");
    harness.say(id, paused());
    assert_refused(&starts(&mut harness, &ana(), id), "bo");
    harness.command(&bo(), Command::on(vec![id], JobVerb::Resume)).expect("bo stopped it");
    // A server admin is above: bo can't undo the hold.
    harness.command(&bo(), Command::on(vec![id], JobVerb::Pause)).expect("an admin of the project");
    harness.command(&root(), Command::on(vec![id], JobVerb::Hold)).expect("root may");
    harness.command(&bo(), Command::on(vec![id], JobVerb::Hold)).expect("it is held already");
    assert_refused(&starts(&mut harness, &bo(), id), "root");
    harness.command(&root(), release(id)).expect("root may");
    let job = &harness.control.world().job(id).expect("it is there").job;
    assert_eq!(job.holder(), None);
}

#[test]
fn a_job_stopped_by_a_project_admin_can_not_leave_the_project() {
    let mut harness = Harness::new(1);
    project(&mut harness, "red", "bo");
    project(&mut harness, "own", "ana");
    let id = harness.add(job("0").with(|it| {
        it.project = ProjectName::new("red");
        it.standing.hold = true;
    }));
    harness.command(&bo(), Command::on(vec![id], JobVerb::Hold)).expect("an admin of the project");
    let to = |name: &str| {
        let patch = JobPatch::default().with("project", |to| to.project = ProjectName::new(name));
        Command::Edit { job: id, version: None, patch, ends: vec![] }
    };
    let refused = harness.command(&ana(), to("own")).expect_err("she is an admin there");
    assert_eq!(refused.code(), Code(511), "{refused:?}");
    // After an admin moved the job, bo may still release it.
    harness.command(&root(), to("own")).expect("root may");
    assert_refused(&starts(&mut harness, &ana(), id), "bo");
}
