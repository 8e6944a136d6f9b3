//! The tasks that a job waits for when others leave their GPUs for it.

use std::collections::BTreeSet;

use gpool_model::agent::{Order, Report, TaskIs};
use gpool_model::device::{Device, Instance, Mig};
use gpool_model::job::JobState;
use gpool_model::mig_layout::MigSize;
use gpool_model::*;

use crate::harness::*;

/// A job that others preempt.
fn gives_way(gpus: &str) -> NewJob {
    let mut new = job(gpus).with(|it| it.standing.priority = -1);
    new.life.preemptible = Some(true);
    new
}

impl Harness {
    fn runs(&mut self, new: NewJob) -> JobId {
        let id = self.add(new);
        self.started(id);
        id
    }

    /// The jobs that a job with claims waits for.
    fn waits_for(&self, id: JobId) -> BTreeSet<JobId> {
        let row = self.control.world().job(id).expect("it is there");
        let claims = row.job.phase.allocations().iter().filter_map(|it| match &it.state {
            AllocationState::Claimed { after } => Some(after),
            _ => None,
        });
        claims.flatten().map(|task| task.job).collect()
    }

    fn ends(&mut self, id: JobId) {
        let now = self.now;
        self.say(id, TaskIs::Ended(end(now, None, true)));
    }

    /// Whether the node was ordered to run a job.
    fn is_ordered(&mut self, id: JobId) -> bool {
        let orders = self.take_orders();
        orders.iter().any(|it| matches!(it, Order::Run(run) if run.task().job == id))
    }
}

#[test]
fn a_share_waits_for_its_victims_only() {
    // The share that stays, the one that leaves, and the one that gets its part.
    for [stays, leaves, comes] in [
        ["0.5", "0.5", "0.5"],
        ["0.25", "0.75", "0.5"],
        ["1@30G", "1@50G", "1@40G"],
        ["2@0.5", "2@0.5", "2@0.5"],
        ["2@0.5", "2@0.5", "0.5"],
    ] {
        let mut it = Harness::new(if stays.starts_with("2@") { 2 } else { 1 });
        let stays = it.runs(job(stays));
        let victim = it.runs(gives_way(leaves));
        it.take_orders();
        let winner = it.add(job(comes));
        assert_eq!(it.state(victim), JobState::Stopping, "{comes}");
        assert_eq!(it.waits_for(winner), [victim].into(), "{comes}");
        let reasons = it.why(winner);
        let [Reason::PreemptionGrace { job, n_jobs: 1, .. }] = reasons[..] else {
            panic!("it waits for its victim: {reasons:?}");
        };
        assert_eq!(job, victim);
        it.ends(victim);
        assert!(it.is_ordered(winner), "{comes} starts beside the share that stays");
        assert_eq!(it.state(stays), JobState::Running);
    }
}

#[test]
fn a_share_waits_for_the_pause_of_its_victim_only() {
    let mut it = Harness::new(1);
    it.runs(job("0.5"));
    let mut new = gives_way("0.5");
    new.life.exits = BTreeSet::from([Exit::Pause, Exit::Kill]).into();
    let victim = it.runs(new);
    let winner = it.add(job("0.5"));
    assert_eq!((it.state(victim), it.waits_for(winner)), (JobState::Paused, [victim].into()));
    it.take_orders();
    it.say(victim, TaskIs::Paused { pid: 4242, started_at: Timestamp::new(1_000_000) });
    assert!(it.is_ordered(winner));
    // It resumes beside the share that stayed.
    it.started(winner);
    it.exited(winner, 0);
    assert_eq!(it.state(victim), JobState::Running);
}

/// Two projects with these guarantees, in thousandths of a GPU.
fn guarantee(it: &mut Harness, red: u64, blue: u64) {
    let create = |project: &str, milli: u64| {
        let guaranteed = Some(Some(Amount::saturating_of(milli)));
        let quota = QuotaPatch { guaranteed, ..QuotaPatch::default() };
        let quotas = vec![(ResourceKind::Gpu, quota)];
        let patch = Box::new(ProjectPatch { quotas, ..ProjectPatch::default() });
        let how = ProjectChangeHow::Create { patch };
        ProjectChange { name: ProjectName::new(project), how }
    };
    let changes = vec![create("red", red), create("blue", blue)];
    let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
    it.command(&root(), Command::ChangeProjects(ask)).expect("they are new");
}

fn of(project: &str, new: NewJob) -> NewJob {
    new.with(|it| it.project = ProjectName::new(project))
}

#[test]
fn a_share_waits_for_the_share_that_its_project_reclaims() {
    let mut it = Harness::new(1);
    guarantee(&mut it, 500, 500);
    let own = it.runs(of("red", gives_way("0.5")));
    let borrowed = it.runs(of("red", gives_way("0.5")));
    let owner = it.add(of("blue", job("0.5")));
    assert_eq!(it.waits_for(owner), [borrowed].into());
    it.take_orders();
    it.ends(borrowed);
    assert!(it.is_ordered(owner));
    assert_eq!(it.state(own), JobState::Running);
}

#[test]
fn a_whole_gpu_is_awaited_until_all_shares_have_left() {
    let mut it = Harness::new(1);
    let shares = ["0.5", "0.25", "0.25"].map(|part| it.runs(gives_way(part)));
    let winner = it.add(job("1"));
    assert_eq!(it.waits_for(winner), shares.into());
    it.take_orders();
    for (n_left, share) in shares.into_iter().enumerate() {
        assert!(!it.is_ordered(winner), "{n_left} have left");
        it.ends(share);
    }
    assert!(it.is_ordered(winner));
}

#[test]
fn shares_with_victims_on_one_gpu_do_not_wait_for_each_other() {
    let mut it = Harness::new(1);
    let victims = [it.runs(gives_way("0.5")), it.runs(gives_way("0.5"))];
    let winners = [it.add(job("0.5")), it.add(job("0.5"))];
    let waits: Vec<BTreeSet<JobId>> = winners.iter().map(|id| it.waits_for(*id)).collect();
    assert!(waits.iter().all(|it| it.len() == 1) && waits[0] != waits[1], "{waits:?}");
    it.take_orders();
    let later = victims[usize::from(waits[1].contains(&victims[1]))];
    it.ends(later);
    assert!(it.is_ordered(winners[1]) && it.state(winners[0]) == JobState::Starting);
}

#[test]
fn a_share_waits_for_leaving_jobs_that_it_needs_the_room_of() {
    let mut it = Harness::new(1);
    let [leaves, victim] = [it.runs(job("0.5")), it.runs(gives_way("0.5"))];
    it.command(&ana(), Command::on(vec![leaves], JobVerb::Cancel)).expect("it is hers");
    // All of the GPU, but not alone.
    let winner = it.add(job("1@80G"));
    assert_eq!(it.waits_for(winner), [leaves, victim].into());
}

#[test]
fn a_share_waits_for_a_leaving_job_that_it_may_not_share_with() {
    for (rule, n_awaited) in [(None, 1), (Some(ShareWith::User), 2)] {
        let mut it = Harness::new(1);
        let others = it.submit(&bo(), vec![job("0.25")]).expect("it fits");
        let Reply::Submitted { first: number, .. } = others else { panic!("{others:?}") };
        let other = JobId { number, element: None };
        it.started(other);
        let victim = it.runs(gives_way("0.75"));
        it.command(&bo(), Command::on(vec![other], JobVerb::Cancel)).expect("it is theirs");
        let winner = it.add(job("0.5").with(|it| it.share_with = rule));
        let awaited = it.waits_for(winner);
        assert!(awaited.contains(&victim) && awaited.len() == n_awaited, "{awaited:?}");
    }
}

/// A node with one GPU that is divided into instances of 10 GiB.
fn divided(n_instances: u32) -> Harness {
    let size = MigSize {
        profile: "1g.10gb".to_owned(),
        memory: Bytes::from_gib(10),
        compute_slices: 1,
        multiprocessors: 16,
        n_max: 7,
        n_free: 0,
        placements: Vec::new(),
        instances: Vec::new(),
    };
    let parent = Device { mig: Some(Mig { enabled: true, sizes: Vec::new() }), ..device(0) };
    let instance = |place: u32| Device {
        index: Instance::index(0, place),
        ..parent.possible_instance(&size, DeviceUuid::new(format!("MIG-{place}")))
    };
    let mut report = inventory(0);
    if let Report::Inventory { devices, .. } = &mut report {
        devices.push(parent.clone());
        devices.extend((0..n_instances).map(instance));
    }
    let mut it = Harness::new(0);
    it.report(report);
    it
}

#[test]
fn an_instance_waits_for_its_victims_only() {
    for (n_stay, n_leave, comes) in [(1, 1, "1g.10gb"), (2, 3, "1g.10gb:2"), (1, 2, "mig:2")] {
        let mut it = divided(n_stay + n_leave);
        let stays: Vec<JobId> = (0..n_stay).map(|_| it.runs(job("1g.10gb"))).collect();
        let leave: Vec<JobId> = (0..n_leave).map(|_| it.runs(gives_way("1g.10gb"))).collect();
        it.take_orders();
        let winner = it.add(job(comes));
        let victims = it.waits_for(winner);
        let n_needed = if comes.ends_with(":2") { 2 } else { 1 };
        assert!(victims.len() == n_needed, "{comes}: {victims:?}");
        assert!(victims.iter().all(|id| leave.contains(id)), "{comes}: {victims:?}");
        for victim in victims {
            assert!(!it.is_ordered(winner), "{comes}");
            it.ends(victim);
        }
        assert!(it.is_ordered(winner), "{comes} starts beside the instances that stay");
        assert!(stays.iter().all(|id| it.state(*id) == JobState::Running));
    }
}

/// A job of one task that may grow by one more.
fn grows(gpus: &str) -> NewJob {
    job(gpus).with(|it| it.gang = Gang::SINGLE.growing_to(2).expect("two tasks"))
}

#[test]
fn a_growing_job_waits_for_the_share_that_its_project_reclaims() {
    let mut it = Harness::new(1);
    guarantee(&mut it, 250, 750);
    let shares: Vec<JobId> = (0..3).map(|_| it.runs(of("red", gives_way("0.25")))).collect();
    let growing = it.runs(of("blue", grows("0.25")));
    let joiner = it.control.world().joiners_of(growing).next().expect("it grows").job.id;
    let waits = it.waits_for(joiner);
    assert!(waits.len() == 1 && shares.iter().any(|id| waits.contains(id)), "{waits:?}");
    it.take_orders();
    waits.into_iter().for_each(|id| it.ends(id));
    assert!(it.is_ordered(joiner));
    let n_running = shares.iter().filter(|id| it.state(**id) == JobState::Running).count();
    assert_eq!((n_running, it.state(growing)), (2, JobState::Running));
}

#[test]
fn a_share_waits_for_the_task_that_a_job_grew_by() {
    let mut it = Harness::new(1);
    let growing = it.runs(grows("0.5"));
    let joiner = it.control.world().joiners_of(growing).next().expect("it grows").job.id;
    it.started(joiner);
    it.take_orders();
    let winner = it.add(job("0.25"));
    assert_eq!(it.waits_for(winner), [joiner].into());
    it.ends(joiner);
    assert!(it.is_ordered(winner));
    assert_eq!(it.state(growing), JobState::Running);
}

impl Harness {
    /// Changes the GPUs of a job.
    fn resizes(&mut self, id: JobId, gpus: &str) -> Result<Reply, Refusal> {
        let patch = JobPatch::default().with("gpus", |to| to.gpus = job(gpus).request.gpus);
        let edit = Command::Edit { job: id, version: None, patch, ends: Vec::new() };
        self.command(&ana(), edit)
    }
}

#[test]
fn a_share_with_another_size_waits_for_its_victims_only() {
    let mut it = Harness::new(1);
    let stays = it.runs(job("0.25"));
    let victim = it.runs(gives_way("0.25"));
    // It waits for all of the GPU, and then for a part.
    let winner = it.add(job("1"));
    assert_eq!((it.state(winner), it.waits_for(winner)), (JobState::Pending, [].into()));
    it.resizes(winner, "0.75").expect("it waits");
    assert_eq!(it.waits_for(winner), [victim].into());
    it.take_orders();
    it.ends(victim);
    assert!(it.is_ordered(winner));
    assert_eq!(it.state(stays), JobState::Running);
}

#[test]
fn a_share_waits_for_a_victim_that_was_resized() {
    for (before, after) in [("0.25", "0.75"), ("0.75", "0.5")] {
        let mut it = Harness::new(1);
        let stays = it.runs(job("0.25"));
        let victim = it.runs(gives_way(before));
        it.resizes(victim, after).expect("there is room");
        it.resizes(stays, "0.2").expect("smaller");
        let winner = it.add(job("0.6"));
        assert_eq!(it.waits_for(winner), [victim].into(), "{after}");
        it.take_orders();
        it.ends(victim);
        assert!(it.is_ordered(winner), "{after}");
    }
}

#[test]
fn no_job_grows_into_a_share_that_another_claims() {
    let mut it = Harness::new(2);
    let stays = it.runs(job("2@0.5"));
    let victims = [it.runs(gives_way("0.5")), it.runs(gives_way("0.5"))];
    let winner = it.add(job("2@0.5"));
    assert_eq!(it.waits_for(winner), victims.into());
    // One of its GPUs has room already.
    it.ends(victims[0]);
    let refused = it.resizes(stays, "2@0.6");
    assert!(matches!(refused, Err(Refusal::Invalid { .. })), "{refused:?}");
    it.resizes(stays, "2@0.4").expect("smaller");
    it.take_orders();
    it.ends(victims[1]);
    assert!(it.is_ordered(winner));
}
