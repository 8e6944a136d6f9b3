//! Projects through the state machine: created, changed and removed, and their rules for jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::SignalTo;
use gpool_model::agent::TaskIs;
use gpool_model::job::{ExitStatus, JobState};
use gpool_model::reason::Bound;
use gpool_model::*;

use crate::harness::*;

fn name(text: &str) -> ProjectName {
    ProjectName::new(text)
}

fn gpus(guaranteed: &str, limit: &str) -> ProjectPatch {
    let amount = |text: &str| match text {
        "unlimited" => Amount::UNLIMITED,
        n => Amount::saturating_of(n.parse::<u64>().expect("a number") * 1000),
    };
    let quota = QuotaPatch {
        guaranteed: (!guaranteed.is_empty()).then(|| Some(amount(guaranteed))),
        limit: (!limit.is_empty()).then(|| amount(limit)),
        weight: None,
    };
    ProjectPatch { quotas: vec![(ResourceKind::Gpu, quota)], ..ProjectPatch::default() }
}

fn below(parent: &str, patch: ProjectPatch) -> ProjectPatch {
    ProjectPatch { parent: Some(Some(name(parent))), ..patch }
}

fn create(project: &str, patch: ProjectPatch) -> ProjectChange {
    let how = ProjectChangeHow::Create { patch: Box::new(patch) };
    ProjectChange { name: name(project), how }
}

fn edit(project: &str, version: Option<u64>, patch: ProjectPatch) -> ProjectChange {
    let how = ProjectChangeHow::Edit { version, patch: Box::new(patch) };
    ProjectChange { name: name(project), how }
}

fn delete(project: &str) -> ProjectChange {
    ProjectChange { name: name(project), how: ProjectChangeHow::Delete { version: None } }
}

fn in_project(project: &str, gpus: &str) -> NewJob {
    job(gpus).with(|it| it.project = name(project))
}

fn preemptible(mut job: NewJob) -> NewJob {
    job.life.preemptible = Some(true);
    job
}

impl Harness {
    fn change(
        &mut self,
        caller: &Caller,
        changes: Vec<ProjectChange>,
    ) -> Result<ProjectsOutcome, Refusal> {
        let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
        match self.command(caller, Command::ChangeProjects(ask))? {
            Reply::Projects(outcome) => Ok(*outcome),
            other => panic!("not an answer to that: {other:?}"),
        }
    }

    fn code_of(&mut self, caller: &Caller, changes: Vec<ProjectChange>) -> u16 {
        let before = self.control.world().projects().clone();
        let refusal = self.change(caller, changes).expect_err("it is refused");
        assert_eq!(*self.control.world().projects(), before, "nothing is half done");
        refusal.code().0
    }

    /// A job that was ordered to leave has left.
    fn leaves(&mut self, id: JobId) {
        let end = end(self.now, Some(ExitStatus::Signal(15)), true);
        self.say(id, TaskIs::Ended(end));
    }

    pub fn why(&self, id: JobId) -> Vec<Reason> {
        let world = self.control.world();
        let snapshot = gpool_world::Snapshot { world, now: self.now };
        let explainer = gpool_sched::Explainer::new(snapshot, world.policy());
        explainer.briefly(world.job(id).expect("it is live"))
    }

    fn version(&self, project: &str) -> u64 {
        self.control.world().projects()[&name(project)].version.0
    }
}

#[test]
fn a_tree_is_made_at_once_changed_and_taken_away_and_is_there_after_a_restart() {
    let mut it = Harness::new(8);
    let changes =
        vec![create("red", below("lab", gpus("4", ""))), create("lab", ProjectPatch::default())];
    let made = it.change(&root(), changes).unwrap();
    assert!(made.done);
    assert_eq!(made.differences.len(), 2);
    it.restart();
    assert_eq!(it.control.world().projects()[&name("red")].parent, Some(name("lab")));
    let changed = it.change(&root(), vec![edit("red", Some(1), gpus("2", "3"))]).unwrap();
    assert_eq!(changed.differences[0].after.as_ref().unwrap().version, Version(2));
    it.change(&root(), vec![delete("lab"), delete("red")]).unwrap();
    it.restart();
    assert_eq!(it.control.world().projects().len(), 1, "default alone is left");
    let journaled = it.journal.iter().filter(|entry| {
        matches!(
            &entry.entry,
            gpool_model::event::Journaled::Event(Event::Requested {
                command: Command::ChangeProjects(_),
                ..
            })
        )
    });
    assert_eq!(journaled.count(), 3);
}

#[test]
fn a_change_that_makes_no_tree_is_refused_as_a_whole() {
    let mut it = Harness::new(8);
    let none = ProjectPatch::default;
    let both = vec![create("a", below("b", none())), create("b", below("a", none()))];
    assert_eq!(it.code_of(&root(), both), 745);
    assert_eq!(it.code_of(&root(), vec![create("a", below("a", none()))]), 745);
    let orphan = vec![create("fine", none()), create("a", below("b", none()))];
    assert_eq!(it.code_of(&root(), orphan), 602);
    assert_eq!(it.code_of(&root(), vec![delete("default")]), 746);
    assert_eq!(it.code_of(&root(), vec![create("a", below("default", none()))]), 746);
    assert_eq!(it.code_of(&root(), vec![create("default", none())]), 742);
    assert_eq!(it.code_of(&root(), vec![edit("red", None, gpus("1", ""))]), 602);
    assert_eq!(it.code_of(&root(), vec![delete("red")]), 602);
    let twice = vec![create("a", none()), create("a", none())];
    assert_eq!(it.code_of(&root(), twice), 101);
    assert_eq!(it.code_of(&root(), vec![edit("default", None, none())]), 101);
    assert_eq!(it.code_of(&ana(), vec![create("a", none())]), 501);
    it.change(&root(), vec![create("lab", none()), create("a", below("lab", none()))]).unwrap();
    assert_eq!(it.code_of(&root(), vec![delete("lab")]), 744);
    let job = it.add(in_project("default", "1"));
    assert_eq!(it.state(job), JobState::Starting);
    it.change(&root(), vec![create("b", gpus("1", ""))]).unwrap();
    it.add(in_project("b", "1"));
    assert_eq!(it.code_of(&root(), vec![create("c", below("b", none()))]), 743);
    assert_eq!(it.code_of(&root(), vec![delete("b")]), 743);
}

#[test]
fn of_two_changes_of_one_project_the_second_is_refused() {
    let mut it = Harness::new(8);
    it.change(&root(), vec![create("red", gpus("1", ""))]).unwrap();
    let seen = it.version("red");
    it.change(&root(), vec![edit("red", Some(seen), gpus("2", ""))]).unwrap();
    let late = it.change(&root(), vec![edit("red", Some(seen), gpus("3", ""))]);
    let conflict = Refusal::ProjectConflict { name: name("red"), expected: 1, found: 2 };
    assert_eq!(late, Err(conflict));
    let ask = |dry_run, seen| {
        let patch = Box::new(gpus("3", ""));
        let how = ProjectChangeHow::Declare { patch };
        let changes = vec![ProjectChange { name: name("blue"), how }];
        Command::ChangeProjects(ProjectsAsk { changes, prune: true, dry_run, seen })
    };
    let Ok(Reply::Projects(looked)) = it.command(&root(), ask(true, None)) else {
        panic!("a dry run is answered");
    };
    let names = looked.differences.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["blue", "red"], "one is made, one goes; default stays");
    assert!(!looked.done && !it.control.world().projects().contains_key(&name("blue")));
    let seen: Vec<_> = looked.base_versions.iter().map(|(name, it)| (name.clone(), it.0)).collect();
    it.change(&root(), vec![create("green", gpus("1", ""))]).unwrap();
    let late = it.command(&root(), ask(false, Some(seen)));
    let conflict = Refusal::ProjectConflict { name: name("green"), expected: 0, found: 1 };
    assert_eq!(late, Err(conflict));
}

#[test]
fn promises_that_can_not_all_be_kept_are_taken_and_flagged() {
    let mut it = Harness::new(4);
    let made = vec![
        create("lab", gpus("2", "")),
        create("red", below("lab", gpus("2", "1"))),
        create("blue", below("lab", gpus("3", ""))),
        create("other", gpus("3", "")),
    ];
    let warnings = it.change(&root(), made).unwrap().warnings;
    let kind = ResourceKind::Gpu;
    let above_parent = ProjectWarning::AboveParent {
        project: name("lab"),
        kind: kind.clone(),
        promised: 4000,
        guaranteed: 2000,
    };
    let above_all =
        ProjectWarning::AboveCluster { kind: kind.clone(), promised: 5000, capacity: 4000 };
    let above_own =
        ProjectWarning::AboveOwnLimit { project: name("red"), kind, guaranteed: 2000, limit: 1000 };
    let unbounded = ProjectWarning::NeverTakenBack { project: name("default") };
    for warning in [above_parent, above_all, above_own, unbounded.clone()] {
        assert!(warnings.contains(&warning), "{warning:?} of {warnings:?}");
    }
    let bounded = it.change(&root(), vec![edit("default", None, gpus("0", ""))]).unwrap();
    assert!(!bounded.warnings.contains(&unbounded));
}

#[test]
fn a_guarantee_below_the_usage_ends_nothing_and_warns() {
    let mut it = Harness::new(4);
    it.change(&root(), vec![create("red", gpus("4", ""))]).unwrap();
    let job = it.add(preemptible(in_project("red", "4")));
    it.started(job);
    let less = it.change(&root(), vec![edit("red", None, gpus("1", ""))]).unwrap();
    assert!(less.warnings.iter().any(|it| matches!(
        it,
        ProjectWarning::HoldsMore { held: 4000, guaranteed: 1000, for_good: 0, .. }
    )));
    assert_eq!(it.state(job), JobState::Running);
}

#[test]
fn leaves_accept_possible_jobs_from_their_members() {
    let mut it = Harness::new(8);
    let members = Members {
        users: BTreeSet::from([Arc::from("bo")]),
        groups: BTreeSet::from([Arc::from("vision")]),
    };
    let lab = ProjectPatch {
        members: Some(Some(members)),
        longest_time: Some(Some(Millis::from_hours(8))),
        ..gpus("", "6")
    };
    let red = ProjectPatch {
        default_time: Some(Some(Millis::from_hours(1))),
        user_pending: Some(Some(2)),
        ..gpus("2", "")
    };
    let blue = ProjectPatch { preemptible: Some(true), ..gpus("1", "") };
    it.change(
        &root(),
        vec![
            create("lab", lab),
            create("red", below("lab", red)),
            create("blue", below("lab", blue)),
        ],
    )
    .unwrap();
    let mut submit = |caller: &Caller, job: NewJob| it.submit(caller, vec![job]);
    let code = |reply: Result<Reply, Refusal>| reply.expect_err("refused").code().0;
    assert_eq!(code(submit(&bo(), in_project("lab", "1"))), 741);
    assert_eq!(code(submit(&bo(), in_project("rde", "1"))), 602);
    let Err(Refusal::NotMember { open, members, .. }) = submit(&ana(), in_project("red", "1"))
    else {
        panic!("ana is no member");
    };
    assert_eq!(
        (open, members),
        (vec![name("default")], vec!["bo".to_owned(), "@vision".to_owned()])
    );
    let mut grouped = ana();
    grouped.groups.insert(Arc::from("vision"));
    assert!(submit(&grouped, in_project("red", "1")).is_ok());
    // More than its guarantee: only for preemptible jobs, and never above a limit.
    let Err(Refusal::AboveQuota { project, bound, asked, most, .. }) =
        submit(&bo(), in_project("red", "3"))
    else {
        panic!("3 are never guaranteed to red");
    };
    assert_eq!((project, bound, asked, most), (name("red"), Bound::Guaranteed, 3000, 2000));
    assert!(submit(&bo(), preemptible(in_project("red", "3"))).is_ok());
    let above = submit(&bo(), preemptible(in_project("red", "7")));
    let Err(Refusal::AboveQuota { project, bound, .. }) = above else {
        panic!("above the limit of lab");
    };
    assert_eq!((project, bound), (name("lab"), Bound::Limit));
    let waits = in_project("red", "7").with(|it| it.allow_unsatisfiable = true);
    assert!(submit(&bo(), waits).is_ok(), "asked for, it waits");
    let long = in_project("red", "1").with(|it| it.time_limit = Some(Millis::from_hours(9)));
    assert_eq!(code(submit(&bo(), long)), 509);
    let Ok(Reply::Submitted { first, .. }) = submit(&bo(), in_project("blue", "3")) else {
        panic!("blue's jobs may be taken back unless they say otherwise");
    };
    let row = it.control.world().job(JobId { number: first, element: None }).unwrap();
    assert_eq!(row.spec.life.preemptible, Some(true));
    assert_eq!(row.spec.time_limit, Some(Millis::from_hours(8)), "the longest there is");
    let one = it.submit(&bo(), vec![in_project("red", "2"), in_project("red", "2")]);
    assert_eq!(code(one), 506, "one waits already, and two may");
}

#[test]
fn admins_of_a_project_act_on_its_jobs_and_on_the_projects_below_it() {
    let mut it = Harness::new(4);
    let admins = |patch| ProjectPatch { admins: Some(BTreeSet::from([Arc::from("bo")])), ..patch };
    let lab = admins(gpus("4", "6"));
    it.change(&root(), vec![create("lab", lab), create("red", below("lab", gpus("2", "")))])
        .unwrap();
    let job = it.add(in_project("red", "1"));
    let mine = it.add(in_project("default", "1"));
    let cancel = |id| Command::on(vec![id], JobVerb::Cancel);
    assert_eq!(it.command(&bo(), cancel(mine)).unwrap_err().code().0, 501);
    let signal = Command::on(vec![job], JobVerb::Signal { signal: 9, to: SignalTo::Job });
    assert_eq!(it.command(&bo(), signal).unwrap_err().code().0, 501);
    let patch = JobPatch::default().with("command", |to| to.command = vec!["id".to_owned()]);
    let held = it.add(in_project("red", "1").with(|it| it.standing.hold = true));
    let edit_job = |patch| Command::Edit { job: held, version: None, patch, ends: vec![] };
    assert_eq!(it.command(&bo(), edit_job(patch)).unwrap_err().code().0, 501);
    let patch = JobPatch::default().with("priority", |to| to.standing.priority = 7);
    it.command(&bo(), edit_job(patch)).unwrap();
    it.command(&bo(), cancel(job)).unwrap();
    // Below it, within its own quota.
    it.change(&bo(), vec![create("blue", below("lab", gpus("2", "5")))]).unwrap();
    it.change(&bo(), vec![edit("blue", None, gpus("1", ""))]).unwrap();
    assert_eq!(it.code_of(&bo(), vec![edit("blue", None, gpus("3", ""))]), 510);
    assert_eq!(it.code_of(&bo(), vec![edit("blue", None, gpus("unlimited", ""))]), 510);
    assert_eq!(it.code_of(&bo(), vec![edit("blue", None, gpus("", "7"))]), 510);
    assert_eq!(it.code_of(&bo(), vec![edit("lab", None, gpus("8", ""))]), 501);
    let kept = |hours| ProjectPatch {
        min_runtime: Some(Some(Millis::from_hours(hours))),
        ..ProjectPatch::default()
    };
    assert_eq!(it.code_of(&bo(), vec![edit("blue", None, kept(1))]), 501);
    it.change(&root(), vec![edit("lab", None, kept(2))]).unwrap();
    it.change(&bo(), vec![edit("blue", None, kept(1))]).unwrap();
    let out = ProjectPatch { parent: Some(None), ..ProjectPatch::default() };
    assert_eq!(it.code_of(&bo(), vec![edit("blue", None, out)]), 501);
    it.change(&bo(), vec![delete("blue")]).unwrap();
}

/// Each project costs time in every cycle.
#[test]
fn admins_of_a_project_add_a_limited_number_below_it() {
    let mut it = Harness::new(4);
    let admins = ProjectPatch { admins: Some(BTreeSet::from([Arc::from("bo")])), ..gpus("4", "6") };
    it.change(&root(), vec![create("lab", admins)]).unwrap();
    let children = |range: std::ops::Range<u32>| {
        let child = |n: u32| create(&format!("lab/{n}"), below("lab", ProjectPatch::default()));
        range.map(child).collect::<Vec<_>>()
    };
    assert_eq!(it.code_of(&bo(), children(0..201)), 747);
    it.change(&bo(), children(0..200)).unwrap();
    assert_eq!(it.code_of(&bo(), children(200..201)), 747);
    it.change(&bo(), vec![delete("lab/0")]).unwrap();
    it.change(&bo(), children(200..201)).unwrap();
    it.change(&root(), children(201..300)).unwrap();
    // More than that many may be changed and deleted.
    it.change(&bo(), vec![delete("lab/1")]).unwrap();
}

#[test]
fn users_of_a_group_of_admins_have_the_rights_of_admins_while_they_are_in_it() {
    let mut it = Harness::new(4);
    let leads = BTreeSet::from([Arc::from("leads")]);
    let lab = ProjectPatch { admin_groups: Some(leads.clone()), ..gpus("4", "6") };
    it.change(&root(), vec![create("lab", lab), create("red", below("lab", gpus("2", "")))])
        .unwrap();
    let job = it.add(in_project("red", "1"));
    let cancel = || Command::on(vec![job], JobVerb::Cancel);
    assert_eq!(it.command(&bo(), cancel()).unwrap_err().code().0, 501);
    // A name is not a group.
    for name in ["leads", "@leads"] {
        let named = Owner { user: Arc::from(name), ..bo().owner };
        assert_eq!(it.command(&Caller::new(named, false), cancel()).unwrap_err().code().0, 501);
    }
    let lead = Caller { groups: leads, ..bo() };
    it.change(&lead, vec![create("blue", below("lab", gpus("1", "1")))]).unwrap();
    assert_eq!(it.code_of(&lead, vec![edit("lab", None, gpus("8", ""))]), 501);
    it.command(&lead, cancel()).unwrap();
}

#[test]
fn borrowers_leave_for_the_owner_and_claims_survive_other_changes() {
    let mut it = Harness::new(2);
    let changes = vec![
        create("red", gpus("1", "")),
        create("blue", gpus("1", "")),
        edit("default", None, gpus("0", "")),
    ];
    it.change(&root(), changes).unwrap();
    let lent: Vec<JobId> = (0..2).map(|_| it.add(preemptible(in_project("red", "1")))).collect();
    lent.iter().for_each(|id| it.started(*id));
    let owner = it.add(in_project("blue", "1"));
    let newest = lent[1];
    assert_eq!(it.state(newest), JobState::Stopping);
    assert_eq!(it.state(owner), JobState::Starting);
    it.restart();
    assert_eq!(it.state(owner), JobState::Starting, "the claim is kept");
    it.report(inventory(2));
    let runs = |it: &Harness, id: &JobId| agent::TaskReport {
        task: it.task_of(*id),
        generation: it.control.world().job(*id).unwrap().job.generation,
        is: TaskIs::Running { pid: 4242, started_at: it.now },
    };
    let reports = lent.iter().map(|id| runs(&it, id)).collect();
    let term = it.term();
    it.report(tasks(term, reports));
    // The leaving job is cancelled meanwhile; the claim stays.
    it.command(&ana(), Command::on(vec![newest], JobVerb::Cancel)).unwrap();
    let reasons = it.why(owner);
    let [Reason::PreemptionGrace { job, n_jobs: 1, until: Some(_), .. }] = reasons[..] else {
        panic!("it waits for one to leave: {reasons:?}");
    };
    assert_eq!(job, newest);
    it.leaves(newest);
    assert_eq!(it.state(newest), JobState::Cancelled);
    let order = it
        .take_orders()
        .into_iter()
        .any(|order| matches!(order, agent::Order::Run(run) if run.allocation.task.job == owner));
    assert!(order, "the owner starts on the freed devices");
    assert!(it.why(owner).is_empty());
}

#[test]
fn a_cancelled_claimant_drops_its_claim_and_the_evicted_job_comes_back() {
    let mut it = Harness::new(2);
    let changes = vec![
        create("red", gpus("1", "")),
        create("blue", gpus("1", "")),
        edit("default", None, gpus("0", "")),
    ];
    it.change(&root(), changes).unwrap();
    let lent: Vec<JobId> = (0..2).map(|_| it.add(preemptible(in_project("red", "1")))).collect();
    lent.iter().for_each(|id| it.started(*id));
    let owner = it.add(in_project("blue", "1"));
    it.command(&ana(), Command::on(vec![owner], JobVerb::Cancel)).unwrap();
    assert_eq!(it.state(owner), JobState::Cancelled);
    it.leaves(lent[1]);
    assert_eq!(it.state(lent[1]), JobState::Starting, "no job claims its devices any more");
    assert_eq!(it.control.world().job(lent[1]).unwrap().job.attempt, Attempt(2));
}

#[test]
fn at_the_limit_of_a_department_a_sibling_leaves_though_there_is_room() {
    let mut it = Harness::new(4);
    let changes = vec![
        create("lab", gpus("", "2")),
        create("red", below("lab", gpus("1", ""))),
        create("blue", below("lab", gpus("1", ""))),
    ];
    it.change(&root(), changes).unwrap();
    let lent: Vec<JobId> = (0..2).map(|_| it.add(preemptible(in_project("red", "1")))).collect();
    lent.iter().for_each(|id| it.started(*id));
    let owner = it.add(in_project("blue", "1"));
    assert_eq!(it.state(lent[1]), JobState::Stopping);
    assert_eq!(it.state(owner), JobState::Starting);
    it.leaves(lent[1]);
    let orders = it.take_orders();
    let started = orders.iter().filter_map(|order| match order {
        agent::Order::Run(run) => Some(run.allocation.task.job),
        _ => None,
    });
    assert!(started.into_iter().any(|job| job == owner), "the limit is lifted");
    assert_eq!(it.state(lent[1]), JobState::Pending);
    let reasons = it.why(lent[1]);
    let [Reason::QuotaProject { ref project, bound: Bound::Limit, .. }, ..] = reasons[..] else {
        panic!("it waits for the limit of its department: {reasons:?}");
    };
    assert_eq!(*project, name("lab"));
}
