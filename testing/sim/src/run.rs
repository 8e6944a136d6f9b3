//! One seed from its beginning to its rest, or a list of happenings without one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::broken::{Broken, Invariant};
use crate::bug::Bug;
use crate::generate::Generator;
use crate::happening::Happening;
use crate::nodes::{Answer, Question};
use crate::sim::{Sim, Totals};
use crate::swarm::{Cluster, Swarm};

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// What happened, to do it again.
    pub happenings: Vec<Happening>,
    /// The first broken invariant.
    pub broken: Option<Broken>,
    /// The counts of its events.
    pub totals: Totals,
    /// A line for each happening and each effect, if they were asked for.
    pub trace: Vec<String>,
}

/// Draws what happens from a swarm until something breaks or it comes to rest.
#[must_use]
pub fn run(swarm: &Swarm, bug: Option<Bug>, is_traced: bool) -> Outcome {
    let mut generator = Generator::new(swarm);
    let mut left = swarm.steps;
    let next = |sim: &Sim| {
        left = left.checked_sub(1)?;
        Some(generator.next(sim))
    };
    carry_on(&mut made(&swarm.cluster, bug, is_traced), next)
}

/// Lets these things happen, until something breaks or it comes to rest.
#[must_use]
pub fn play(
    cluster: &Cluster,
    bug: Option<Bug>,
    is_traced: bool,
    happenings: &[Happening],
) -> Outcome {
    let mut happenings = happenings.iter();
    carry_on(&mut made(cluster, bug, is_traced), |_| happenings.next().cloned())
}

/// The questions to the logic of the nodes while these things happen, with its answers.
#[must_use]
pub fn record(cluster: &Cluster, happenings: &[Happening]) -> Vec<(Question, Answer)> {
    let (mut sim, mut happenings) = (Sim::recorded(cluster), happenings.iter());
    let _ = carry_on(&mut sim, |_| happenings.next().cloned());
    sim.asked.unwrap_or_default()
}

fn made(cluster: &Cluster, bug: Option<Bug>, is_traced: bool) -> Sim {
    let mut sim = Sim::new(cluster, bug);
    if is_traced {
        sim.keep_trace();
    }
    sim
}

fn carry_on(sim: &mut Sim, mut next: impl FnMut(&Sim) -> Option<Happening>) -> Outcome {
    let mut happenings = Vec::new();
    let went = catch_unwind(AssertUnwindSafe(|| {
        while sim.broken().is_none()
            && let Some(what) = next(sim)
        {
            happenings.push(what.clone());
            sim.happen(&what);
        }
        if sim.broken().is_none() {
            sim.settle();
        }
    }));
    let mut broken = sim.broken().cloned();
    if let Err(panic) = went {
        let what = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        broken = Some(Broken { invariant: Invariant::Panic, what, step: happenings.len() });
    }
    Outcome { happenings, broken, totals: sim.totals().clone(), trace: sim.trace().to_vec() }
}

/// Returns the number of seeds after which a planted bug is found, and the broken invariant; `None`
/// if it is not found.
#[must_use]
pub fn find(bug: Bug, from: u64, most: u64) -> Option<(u64, Broken)> {
    (1..=most).find_map(|n| {
        let swarm = Swarm::of(from.saturating_add(n - 1), None);
        Some((n, run(&swarm, Some(bug), false).broken?))
    })
}
