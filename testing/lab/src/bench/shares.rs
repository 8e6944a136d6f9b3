//! Measures cycles of a cluster that a thousand projects share: most projects exceed their
//! guarantee with loans from idle projects, until these submit jobs.

use std::time::Duration;

use gpool_cli::failure::Result;
use gpool_model::{
    Amount, Command, Event, NewJob, ProjectChange, ProjectChangeHow, ProjectName, ProjectPatch,
    ProjectsAsk, QuotaPatch, ResourceKind,
};

use super::figure::{Figure, Ranked};
use super::process::memory_of;
use super::synthetic::{DEVICES, Fleet, USERS, job};
use super::{Options, failed};

/// Projects of each department.
const IN_EACH: u32 = 20;
/// One of this many projects is idle at first.
const IDLE_OF: u32 = 8;
/// Number of different requests.
const KINDS: u32 = 50;
/// Number of timed runs of each kind of step.
const ROUNDS: usize = 31;

/// Fills the cluster with mostly preemptible jobs, then times a step without changes, one after a
/// single end, one after a submission, and one with a project that has lent its whole guarantee and
/// reclaims a part.
///
/// # Errors
/// The state machine refuses something.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let memory_before = memory_of(std::process::id());
    let mut fleet = Fleet::new(options.nodes)?;
    let n_projects = n_projects(options);
    agree(&mut fleet, options)?;
    // A job that others leave for starts in the second round, once they have left.
    let fill = fleet.fill(options.pending, 2, |n| busy(n_projects, n))?;
    let (n_pending, n_shapes) = (fleet.n_pending(), fleet.n_shapes());
    let memory = memory_of(std::process::id()).saturating_sub(memory_before);
    let full = Ranked::of(times(ROUNDS, || fleet.step(vec![Event::TimerFired]))?);
    let mut running = fleet.tasks();
    let ended = Ranked::of(times(ROUNDS, || {
        if running.is_empty() {
            running = fleet.tasks();
        }
        let event = match running.len() {
            0 => None,
            n_running => fleet.end(running.swap_remove(n_running * 7 / 11)),
        };
        let took = fleet.step(event.into_iter().collect())?;
        let answers = fleet.answers(false);
        fleet.step(answers)?;
        Ok(took)
    })?);
    let mut n = 0;
    let submitted = Ranked::of(times(ROUNDS, || {
        n += 1;
        let event = fleet.submission(n, vec![busy(n_projects, n)]);
        fleet.step(vec![event])
    })?);
    let n_victims = fleet.n_on_loan();
    let idle: Vec<u32> = (0..n_projects).filter(|ix| is_idle(*ix)).collect();
    let mut idle = idle.into_iter().cycle();
    // All victims have left before the measurement.
    let answers = fleet.answers(false);
    fleet.step(answers)?;
    let n_taken_before = fleet.n_leaving();
    let reclaimed = Ranked::of(times(ROUNDS, || {
        let project = name(idle.next().unwrap_or(0));
        let owner = job(0).with(|job| job.project = project);
        let event = fleet.submission(1, vec![owner]);
        fleet.step(vec![event])
    })?);
    if fleet.n_leaving() <= n_taken_before {
        return Err(failed("no job was preempted to reclaim quota"));
    }
    let of = format!(
        "{} nodes, {} GPUs, {n_projects} projects, {USERS} users, {n_pending} pending in \
         {n_shapes} shapes",
        options.nodes,
        options.nodes * DEVICES
    );
    let ms = |name, what: String, ranked: &Ranked, goal: f64| {
        Figure::new(name, what, ranked.percentile(50), "ms").below(goal)
    };
    Ok(vec![
        ms("shares_full_ms", format!("full cycle: {of}"), &full, 20.0),
        ms("shares_end_ms", "step after one job ended".into(), &ended, 5.0),
        ms("shares_submit_ms", "step after one submission".into(), &submitted, 5.0),
        ms(
            "shares_reclaim_ms",
            format!("step that reclaims, with {n_victims} possible victims"),
            &reclaimed,
            50.0,
        ),
        Figure::new("shares_memory_mb", "memory of the whole state", memory as f64 / 1e6, "MB")
            .below(300.0),
        Figure::new("shares_fill_s", "filling the empty cluster, all steps", fill, "s"),
    ])
}

/// One project for ten nodes, at most 1,000.
fn n_projects(options: &Options) -> u32 {
    (options.nodes / 10).clamp(IDLE_OF, 1000)
}

fn is_idle(ix: u32) -> bool {
    ix.is_multiple_of(IDLE_OF)
}

fn name(ix: u32) -> ProjectName {
    ProjectName::new(format!("d{:02}-p{:02}", ix / IN_EACH, ix % IN_EACH))
}

/// The n-th job of the busy projects, with any of the requests; every fifth is non-preemptible.
fn busy(n_projects: u32, n: u32) -> NewJob {
    let of_busy = n % (n_projects - n_projects.div_ceil(IDLE_OF));
    let ix = of_busy + of_busy / (IDLE_OF - 1) + 1;
    let mut job = job(mixed(n) % KINDS);
    job.project = name(ix);
    job.life.preemptible = (!n.is_multiple_of(5)).then_some(true);
    // With few nodes, a guarantee is smaller than the largest request.
    job.allow_unsatisfiable = true;
    job
}

/// A hash that is independent of common factors of `n`.
///
/// Source: the finalizer of MurmurHash3, Austin Appleby.
fn mixed(n: u32) -> u32 {
    let mut h = n;
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// Gives every project the same guarantee; together they are four fifths of all GPUs.
fn agree(fleet: &mut Fleet, options: &Options) -> Result<()> {
    let gpus = u64::from(options.nodes * DEVICES) * 1000;
    let each = gpus * 4 / 5 / u64::from(n_projects(options));
    // More on the smallest cluster, where less than one device is useless.
    let each = Amount::saturating_of(each.max(1000));
    let declare = |name, patch| ProjectChange {
        name,
        how: ProjectChangeHow::Declare { patch: Box::new(patch) },
    };
    let department = |d: u32| ProjectName::new(format!("d{d:02}"));
    let departments = (0..n_projects(options).div_ceil(IN_EACH))
        .map(|d| declare(department(d), ProjectPatch::default()));
    let projects = (0..n_projects(options)).map(|ix| {
        let quota = QuotaPatch { guaranteed: Some(Some(each)), ..QuotaPatch::default() };
        let patch = ProjectPatch {
            parent: Some(Some(department(ix / IN_EACH))),
            quotas: vec![(ResourceKind::Gpu, quota)],
            ..ProjectPatch::default()
        };
        declare(name(ix), patch)
    });
    let changes = departments.chain(projects).collect();
    let ask = ProjectsAsk { changes, ..ProjectsAsk::default() };
    let event = fleet.by_admin(Command::ChangeProjects(ask));
    fleet.step(vec![event])?;
    Ok(())
}

/// Each time, in milliseconds.
fn times(rounds: usize, mut once: impl FnMut() -> Result<Duration>) -> Result<Vec<f64>> {
    let mut measured = Vec::new();
    for _ in 0..rounds {
        measured.push(once()?.as_secs_f64() * 1000.0);
    }
    Ok(measured)
}
