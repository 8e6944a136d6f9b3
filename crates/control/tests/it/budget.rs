//! Jobs whose budget is used up are held, and released when it no longer is.

use gpool_model::budget::{Overspent, Payer};
use gpool_model::job::{Holder, JobState};
use gpool_model::project_change::{ProjectChange, ProjectChangeHow, ProjectPatch, ProjectsAsk};
use gpool_model::refusal::Permitted;
use gpool_model::*;

use crate::harness::*;

fn over(payer: Payer) -> Overspent {
    let money = |text: &str| Money::parse(text).expect("valid");
    Overspent { payer, spent: money("101.5"), budget: money("100"), currency: "EUR".into() }
}

fn set(harness: &mut Harness, all: Vec<Overspent>) {
    harness.command(&root(), Command::SetOverspent { all }).expect("the server may");
}

fn user(name: &str) -> Payer {
    Payer::User(name.into())
}

fn submit(harness: &mut Harness, caller: &Caller, new: NewJob) -> JobId {
    match harness.submit(caller, vec![new]).expect("it is valid") {
        Reply::Submitted { first, .. } => JobId { number: first, element: None },
        other => panic!("{other:?}"),
    }
}

fn holder(harness: &Harness, id: JobId) -> Option<Holder> {
    harness.control.world().job(id).expect("it is live").job.holder()
}

#[test]
fn jobs_that_have_not_started_are_held_until_the_budget_is_no_longer_used_up() {
    let mut harness = Harness::new(1);
    let running = submit(&mut harness, &ana(), job("1"));
    harness.started(running);
    let pending = submit(&mut harness, &ana(), job("1"));
    let waiting = submit(&mut harness, &ana(), after(job("0"), pending, DependencyKind::Ok));
    let others = submit(&mut harness, &bo(), job("1"));
    set(&mut harness, vec![over(user("ana"))]);
    let later = submit(&mut harness, &ana(), job("1"));
    for id in [pending, waiting, later] {
        assert_eq!(holder(&harness, id), Some(Holder::Budget), "job {id}");
    }
    assert_eq!(harness.state(running), JobState::Running);
    assert_eq!(harness.state(others), JobState::Pending);

    let refused = harness.command(&ana(), Command::on(vec![later], JobVerb::Release { at: None }));
    let is_for_admins = matches!(&refused, Err(Refusal::NotPermitted { by: Permitted::Admin, .. }));
    assert!(is_for_admins, "{refused:?}");

    // The job that an admin releases stays released.
    let release = Command::on(vec![later], JobVerb::Release { at: None });
    harness.command(&root(), release).expect("an admin may");
    set(&mut harness, vec![over(user("ana")), over(user("cy"))]);
    assert_eq!(harness.state(later), JobState::Pending);

    set(&mut harness, Vec::new());
    assert_eq!(harness.state(pending), JobState::Pending);
    assert_eq!(harness.state(waiting), JobState::Waiting);
}

#[test]
fn a_hold_of_the_user_stays_and_only_the_server_reports_costs() {
    let mut harness = Harness::new(1);
    let mut new = job("1");
    new.standing.hold = true;
    let held = submit(&mut harness, &ana(), new);
    set(&mut harness, vec![over(user("ana"))]);
    set(&mut harness, Vec::new());
    assert_eq!(holder(&harness, held), Some(Holder::User));
    let all = vec![over(user("bo"))];
    assert!(harness.command(&ana(), Command::SetOverspent { all }).is_err());
}

#[test]
fn the_budget_of_a_department_holds_the_jobs_of_its_projects() {
    let mut harness = Harness::new(1);
    let create = |name: &str, patch: ProjectPatch| ProjectChange {
        name: ProjectName::new(name),
        how: ProjectChangeHow::Create { patch: Box::new(patch) },
    };
    let below =
        ProjectPatch { parent: Some(Some(ProjectName::new("lab"))), ..ProjectPatch::default() };
    let changes = vec![create("lab", ProjectPatch::default()), create("nlp", below)];
    let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
    harness.command(&root(), Command::ChangeProjects(ask)).expect("root may");
    set(&mut harness, vec![over(Payer::Project(ProjectName::new("lab")))]);
    let mut new = job("0");
    new.project = ProjectName::new("nlp");
    let id = submit(&mut harness, &ana(), new);
    assert_eq!(holder(&harness, id), Some(Holder::Budget));
    let row = harness.control.world().job(id).expect("it is live");
    let Reason::OverBudget { by: Some(by), .. } =
        harness.control.world().over_budget(row, harness.now)
    else {
        panic!("it names the budget");
    };
    assert_eq!(by.payer.to_string(), "project lab");
}
