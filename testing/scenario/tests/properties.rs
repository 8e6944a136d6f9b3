//! Properties of every cluster under any sequence of steps, checked by `gpool-verify`. A failing
//! case is printed as a scenario.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::{Decision, Exit, JobId, Plan, PlannedStart, Record, RecordKey, TakenBack};
use gpool_scenario::{Case, Cluster, Situation, Step, cases, cases_of_las, config, plan_text};
use gpool_sched::{Explainer, Workspace};
use gpool_verify::{Violation, check, verify, verify_fully};
use gpool_world::{Snapshot, World};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestCaseError;

fn none(what: &[Violation], snapshot: &Snapshot<'_>, plan: &str) -> Result<(), TestCaseError> {
    let lines: Vec<String> = what.iter().map(ToString::to_string).collect();
    prop_assert!(lines.is_empty(), "{}\nin\n{}\n{plan}", lines.join("\n"), Situation::of(snapshot));
    Ok(())
}

/// Plays a case; `look` gets every state with its plan, before the plan is applied.
fn play(
    case: &Case,
    mut look: impl FnMut(&Snapshot<'_>, &Plan) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut cluster = Cluster::of(&case.start);
    for step in &case.steps {
        cluster.apply(step);
        let plan = whole_plan(&mut cluster)?;
        look(&cluster.snapshot(), &plan)?;
        prop_assert_eq!(cluster.cycle(), plan, "a plan that is made again is the same");
    }
    Ok(())
}

/// The next plan that looks at the whole queue. A cycle that ends at a resume leaves the rest of it
/// to the next cycle; its plan breaks no invariant either, and is carried out.
fn whole_plan(cluster: &mut Cluster) -> Result<Plan, TestCaseError> {
    loop {
        let plan = cluster.plan();
        if !cluster.is_cut() {
            return Ok(plan);
        }
        let snapshot = cluster.snapshot();
        let text = plan_text(&snapshot, &plan);
        none(&verify(&snapshot, snapshot.world.policy(), &plan), &snapshot, &text)?;
        let resumes = |it: &Decision| matches!(it, Decision::Resume { .. });
        prop_assert!(plan.decisions.iter().any(resumes));
        cluster.cycle();
    }
}

proptest! {
    #![proptest_config(config(150))]

    /// scheduling.md E1, E6: no device is given twice, nothing is overbooked, the order is kept, no
    /// job waits that fits, every wait is counted, and its reason is true.
    #[test]
    fn plans_break_no_invariant_and_leave_no_job_that_fits(case in cases(80)) {
        play(&case, |snapshot, plan| {
            let text = plan_text(snapshot, plan);
            none(&check(snapshot), snapshot, &text)?;
            none(&verify_fully(snapshot, snapshot.world.policy(), plan), snapshot, &text)?;
            none(&verify(snapshot, snapshot.world.policy(), plan), snapshot, &text)
        })?;
    }

    /// scheduling.md E5: without a change, at the same time, a second cycle does nothing and
    /// reports the same waits.
    #[test]
    fn a_second_cycle_does_nothing(case in cases(60)) {
        let mut cluster = Cluster::of(&case.start);
        for step in &case.steps {
            cluster.apply(step);
            let first = cluster.cycles();
            let second = cluster.cycle();
            prop_assert_eq!(&second.decisions, &vec![], "{}", Situation::of(&cluster.snapshot()));
            let shapes = |plan: &Plan| -> BTreeSet<_> {
                plan.waits.iter().map(|wait| (wait.shape.clone(), wait.n_jobs)).collect()
            };
            prop_assert_eq!(shapes(&first), shapes(&second));
        }
    }

    /// scheduling.md E1, E5, E6, E7 with preemption by attained GPU-time: no invariant breaks, a
    /// second cycle does nothing, and at the same time the cluster comes to rest.
    #[test]
    fn by_gpu_time_jobs_change_places_once(case in cases_of_las(60)) {
        let mut cluster = Cluster::of(&case.start);
        for step in &case.steps {
            cluster.apply(step);
            let plan = whole_plan(&mut cluster)?;
            let snapshot = cluster.snapshot();
            let text = plan_text(&snapshot, &plan);
            none(&check(&snapshot), &snapshot, &text)?;
            none(&verify_fully(&snapshot, snapshot.world.policy(), &plan), &snapshot, &text)?;
            cluster.cycles();
            let second = cluster.cycle();
            prop_assert_eq!(&second.decisions, &vec![], "{}", Situation::of(&cluster.snapshot()));
        }
        let n_jobs = cluster.snapshot().world.jobs().len();
        let mut n_rounds = 0;
        while !cluster.cycle().decisions.is_empty() || cluster.finish_leaving() > 0 {
            n_rounds += 1;
            prop_assert!(n_rounds <= n_jobs + 2, "{}", Situation::of(&cluster.snapshot()));
        }
        prop_assert_eq!(cluster.snapshot().world.claimants().count(), 0);
    }

    /// scheduling.md E2: every submitted job is in memory or has ended, exactly one of them, and
    /// every waiting job has a reason.
    #[test]
    fn no_job_is_lost_and_every_wait_has_a_reason(case in cases(80)) {
        let mut cluster = Cluster::of(&case.start);
        let mut ended = BTreeSet::<JobId>::new();
        for step in &case.steps {
            cluster.apply(step);
            cluster.cycles();
            if let Some((_, _, jobs)) = cluster.world_mut().take_changes() {
                for job in jobs {
                    prop_assert!(ended.insert(job.id()), "job {} ended twice", job.id());
                }
            }
            let snapshot = cluster.snapshot();
            let last = snapshot.world.cluster().last_job.0;
            for id in (1..=last).map(JobId::single) {
                let row = snapshot.world.job(id);
                prop_assert_eq!(row.is_some(), !ended.contains(&id), "job {}", id);
                let explainer = Explainer::new(snapshot, snapshot.world.policy());
                if let Some(row) = row.filter(|row| row.job.phase.allocations().is_empty()) {
                    prop_assert!(!explainer.briefly(row).is_empty(), "no reason for job {}", id);
                }
            }
        }
    }

    /// The records of all commits together are the records of the state.
    #[test]
    fn commits_add_up_to_the_records_of_the_state(case in cases(80)) {
        let mut cluster = Cluster::of(&case.start);
        let mut store = BTreeMap::<RecordKey, Record>::new();
        store.extend(cluster.snapshot().world.records().into_iter().map(|r| (r.key(), r)));
        for step in &case.steps {
            cluster.apply(step);
            cluster.cycle();
            let before = cluster.snapshot().world.revision();
            if let Some((revision, changes, _)) = cluster.world_mut().take_changes() {
                prop_assert_eq!(revision, before.next());
                for change in changes {
                    match change.value {
                        Some(record) => drop(store.insert(change.key, record)),
                        None => drop(store.remove(&change.key)),
                    }
                }
            }
            let world = cluster.snapshot().world;
            let records: Vec<Record> = store.values().cloned().collect();
            prop_assert_eq!(records, world.records());
        }
    }

    /// scheduling.md E8: the plan depends only on the state, not on the order of events or on the
    /// scheduler's caches: cold and warm, sorted and shuffled give the same bytes.
    #[test]
    fn the_same_state_gives_the_same_bytes(case in cases(50), seed in any::<u64>()) {
        play(&case, |snapshot, plan| {
            let bytes = serde_json::to_string(plan).unwrap();
            for seed in [None, Some(seed), Some(seed.wrapping_add(1))] {
                let cold = rebuilt(snapshot, seed);
                let again = Snapshot { world: &cold, now: snapshot.now };
                let plan = gpool_sched::plan(&again, cold.policy(), &mut Workspace::default());
                let other = serde_json::to_string(&plan).unwrap();
                prop_assert_eq!(&bytes, &other, "{}", Situation::of(snapshot));
                // Without reasons the scheduler decides the same.
                let quick = gpool_sched::decide(&again, cold.policy(), &mut Workspace::default());
                let decided = |plan: &Plan| (plan.decisions.clone(), plan.planned.clone());
                prop_assert_eq!(decided(&plan), decided(&quick), "{}", Situation::of(snapshot));
            }
            Ok(())
        })?;
    }

    /// A written situation reads as the same situation, and its copy gives the same plans.
    #[test]
    fn situations_are_read_as_they_are_written(case in cases(50)) {
        play(&case, |snapshot, plan| {
            let written = Situation::of(snapshot).to_string();
            let read = Situation::parse(&written)
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(&read.to_string(), &written);
            let world = read.world();
            let copy = Snapshot { world: &world, now: read.now };
            let again = gpool_sched::plan(&copy, world.policy(), &mut Workspace::default());
            // A plan prints jobs by name, and names are made of numbers on both sides.
            prop_assert_eq!(
                plan_text(&copy, &again),
                plan_text(snapshot, plan),
                "{}", written
            );
            Ok(())
        })?;
    }
}

proptest! {
    #![proptest_config(config(10_000))]

    /// scheduling.md E9: no job that starts beside a planned start delays it: after a plan is
    /// applied, the planned start is at the same time. Three cases are exempt. Between projects,
    /// the order and the job with the planned start depend on what projects hold. After an
    /// eviction, the job with the first planned start may get the freed devices instead, and later
    /// jobs the rest. While a job with parts waits, a start may let its parts fit earlier in other
    /// places, because they are placed one after the other.
    #[test]
    fn no_start_delays_a_planned_start(case in cases(60)) {
        let mut cluster = Cluster::of(&case.start);
        for step in &case.steps {
            cluster.apply(step);
            let world = cluster.snapshot().world;
            let is_shared = world.policy().shares() && !world.projects().is_empty();
            let has_parts = world.shapes().any(|(_, queue)| !queue.parts.is_empty());
            let before = Situation::of(&cluster.snapshot());
            let plan = cluster.cycle();
            let again = cluster.plan();
            let is_taken_back = |it: &Decision| matches!(it, Decision::Evict { .. });
            let n_same = match plan.decisions.iter().any(is_taken_back) {
                _ if is_shared || has_parts => 0,
                true => 1,
                false => plan.planned.len(),
            };
            for planned in plan.planned.iter().take(n_same) {
                let is_later = |it: &PlannedStart| it.job == planned.job && it.at > planned.at;
                let delayed = again.planned.iter().find(|it| is_later(it));
                prop_assert!(delayed.is_none(), "{planned:?}\n{delayed:?}\n{before}");
            }
        }
    }

    /// scheduling.md E4: while only the evicted jobs leave, no project reclaims from another the
    /// capacity that the other has just reclaimed from it.
    #[test]
    fn reclaimed_capacity_is_not_reclaimed_back(case in cases(60)) {
        let mut cluster = Cluster::of(&case.start);
        for step in &case.steps {
            cluster.apply(step);
            let mut taken = BTreeSet::new();
            loop {
                let plan = cluster.plan();
                let snapshot = cluster.snapshot();
                let project = |job: JobId| {
                    let of = JobId { element: None, ..job };
                    let row = snapshot.world.job(job).or_else(|| snapshot.world.job(of)).unwrap();
                    row.spec.project.clone()
                };
                for decision in &plan.decisions {
                    let Decision::Evict { job, why: TakenBack::Reclaim, beneficiary, .. } = decision
                    else {
                        continue;
                    };
                    let (from, by) = (project(*job), project(*beneficiary));
                    let text = plan_text(&snapshot, &plan);
                    let again = taken.contains(&(by.clone(), from.clone()));
                    prop_assert!(!again, "{by} from {from}\n{}\n{text}", Situation::of(&snapshot));
                    taken.insert((from, by));
                }
                if cluster.cycle().decisions.is_empty() && cluster.finish_leaving() == 0 {
                    break;
                }
            }
        }
    }

    /// scheduling.md E5, E7: while only the evicted jobs leave, a cluster comes to rest, and every
    /// beneficiary has started.
    #[test]
    fn a_cluster_comes_to_rest(case in cases(60)) {
        let mut cluster = Cluster::of(&case.start);
        for step in &case.steps {
            cluster.apply(step);
            cluster.cycle();
        }
        let n_jobs = cluster.snapshot().world.jobs().len();
        let mut n_rounds = 0;
        while !cluster.cycle().decisions.is_empty() || cluster.finish_leaving() > 0 {
            n_rounds += 1;
            prop_assert!(n_rounds <= n_jobs + 2, "{}", Situation::of(&cluster.snapshot()));
        }
        let n_claimants = cluster.snapshot().world.claimants().count();
        prop_assert_eq!(n_claimants, 0, "{}", Situation::of(&cluster.snapshot()));
        for _ in 0..20 {
            prop_assert_eq!(cluster.cycle().decisions, vec![]);
        }
    }
}

/// Builds the world from a snapshot's records; with a seed, in another order.
fn rebuilt(snapshot: &Snapshot<'_>, seed: Option<u64>) -> World {
    let mut records = snapshot.world.records();
    let mut jobs: Vec<JobId> = snapshot.world.jobs().keys().copied().collect();
    if let Some(seed) = seed {
        // Loading sorts jobs by ID, so they are added one by one instead.
        records.retain(|record| !matches!(record, Record::Job(_) | Record::JobSpec(_)));
        shuffle(&mut records, seed);
        shuffle(&mut jobs, seed);
    }
    let mut world = World::load(snapshot.world.revision(), records).unwrap();
    if seed.is_some() {
        for job in jobs {
            let row = snapshot.world.job(job).unwrap();
            world.add_job(row.spec.clone(), row.job.clone());
        }
    }
    world.advance(snapshot.now);
    world
}

fn shuffle<T>(list: &mut [T], mut seed: u64) {
    for last in (1..list.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(last, usize::try_from(seed >> 33).unwrap() % (last + 1));
    }
}

/// The random streams are useful: they start jobs, evict for every cause, leave jobs waiting, and
/// reach every reason that a shape can have.
#[test]
fn random_streams_meet_every_reason() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut n_starts = 0;
    let mut taken_back = BTreeSet::new();
    let mut codes = BTreeSet::new();
    for _ in 0..1000 {
        let case = cases(80).new_tree(&mut runner).unwrap().current();
        play(&case, |_, plan| {
            let is_start = |decision: &&Decision| matches!(decision, Decision::Start { .. });
            n_starts += plan.decisions.iter().filter(is_start).count();
            taken_back.extend(plan.decisions.iter().filter_map(|decision| match decision {
                Decision::Evict { why, exit, .. } => Some((why.as_str(), Some(*exit))),
                Decision::Resume { .. } => Some(("resume", None)),
                Decision::Start { .. } => None,
            }));
            codes.extend(plan.waits.iter().map(|wait| wait.reason.code()));
            Ok(())
        })
        .unwrap();
    }
    assert!(n_starts > 500, "only {n_starts} jobs were started");
    let ways = ["preempt", "reclaim"].into_iter();
    let ways = ways.flat_map(|why| [Exit::Pause, Exit::Requeue].map(|exit| (why, Some(exit))));
    let ways: BTreeSet<_> = ways.chain([("resume", None)]).collect();
    assert_eq!(taken_back, ways);
    let every = [
        "agent_unreachable",
        "cpu_or_mem_short",
        "gpu_memory_too_small",
        "gpu_model_missing",
        "gpu_share_not_free",
        "gpus_not_free",
        "gpus_not_free_together",
        "maintenance_soon",
        "node_drained",
        "node_occupied",
        "nodes_not_free",
        "not_reserved",
        "only_on_nodes",
        "paused_on",
        "quota_project",
        "quota_user_in_project",
        "reserved_for_other",
        "share_not_allowed",
        "tasks_not_free",
        "would_delay",
    ];
    assert_eq!(codes.into_iter().collect::<Vec<_>>(), every);
}

/// Steps that select from nothing change nothing.
#[test]
fn steps_in_an_empty_cluster_do_nothing() {
    let mut cluster = Cluster::of(&Situation::empty());
    let before = cluster.snapshot().world.records();
    for step in [Step::Cancel(7), Step::Hold(7), Step::Release(7), Step::Connect(7, true)] {
        cluster.apply(&step);
    }
    assert_eq!(cluster.snapshot().world.records(), before);
}
