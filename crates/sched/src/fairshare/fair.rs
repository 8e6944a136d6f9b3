//! Divides one resource kind among siblings. The base is KAI's rule; the departures, each for a
//! reason:
//!
//! 1. If the requested guarantees exceed the capacity, each project gets a part in proportion to
//!    its guarantee, and never less than the whole steps of its covered guarantee, instead of all
//!    of it on paper. Unlimited guarantees are left out: such a project never borrows that kind,
//!    and no other guarantee shrinks for it.
//! 2. The parts are computed first and cut to whole steps once, so a project's share does not
//!    depend on the number of rounds.
//! 3. A step is the smallest amount that the project can use: whole devices if its jobs request
//!    whole ones, less if they request shares, so that four projects with half devices can divide
//!    two.
//! 4. The rest of the cutting goes to the same priority before a lower one; no project gets more
//!    than it requests; and nothing is left while a project with a weight requests it.
//! 5. Past usage is weighed once, among all that request, and never keeps a project from capacity
//!    that no other project requests.

use std::cmp::Reverse;

use super::Buffers;
use super::claimant::{Claimant, Feedback, cut, groups};
use super::ratio::Ratio;

/// A project that requests a part of a pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// Its position in the level.
    ix: usize,
    /// Its part is proportional to this; not zero.
    part: u64,
    /// The most that it takes; not zero.
    want: u64,
    step: u64,
    rest: Option<Ratio>,
}

/// Passes over all askers before sorting them pays.
const PASSES: usize = 6;

/// Divides `total` among siblings in the order of [`Tree`](super::Tree). Returns the rest.
pub fn divide(
    level: &mut [Claimant],
    total: u64,
    feedback: Feedback,
    buffers: &mut Buffers,
) -> u64 {
    let mut rest = total.saturating_sub(unlimited(level, total));
    let finite = guaranteed(level, total, buffers);
    rest = rest.saturating_sub(finite);
    let mut start = 0;
    while rest > 0 && start < level.len() {
        let group = groups(&level[start..]).next().unwrap_or(0..0);
        rest = over_quota(level, start..start + group.end, rest, feedback, buffers);
        start += group.end;
    }
    rest
}

/// Gives projects with an unlimited guarantee their claims. Returns the sum.
fn unlimited(level: &mut [Claimant], total: u64) -> u64 {
    let mut sum = 0_u64;
    for it in level.iter_mut().filter(|it| it.guaranteed.is_unlimited()) {
        it.share = it.claim.min(total);
        sum = sum.saturating_add(it.share);
    }
    sum
}

/// Gives the other projects their guarantees, as far as they claim them; in proportion to the
/// guarantees if that exceeds the capacity. Returns the sum.
fn guaranteed(level: &mut [Claimant], total: u64, buffers: &mut Buffers) -> u64 {
    let mut sum = 0_u64;
    for it in level.iter_mut() {
        if let Some(guaranteed) = it.guaranteed.finite() {
            it.share = guaranteed.min(it.claim);
            sum = sum.saturating_add(it.share);
        }
    }
    if sum <= total {
        return sum;
    }
    let askers = &mut buffers.askers;
    askers.clear();
    for (ix, it) in level.iter_mut().enumerate() {
        if let Some(part) = it.guaranteed.finite()
            && it.share > 0
        {
            askers.push(Asker { ix, part, want: it.share, step: it.step, rest: None });
            it.share = 0;
        }
    }
    let left = fill(level, total, askers);
    keep(level);
    total - left
}

/// If a department was cut to whole steps, some children may get less than their `safe_claim`. Then
/// the children with more give it to them, the last in order first.
pub fn keep(level: &mut [Claimant]) {
    let bounded = |it: &&mut Claimant| !it.guaranteed.is_unlimited();
    let mut missing = 0;
    for it in level.iter_mut().filter(bounded) {
        missing += it.safe_claim.saturating_sub(it.share);
        it.share = it.share.max(it.safe_claim);
    }
    for it in level.iter_mut().filter(bounded).rev() {
        let given = missing.min(it.share - it.safe_claim);
        it.share -= given;
        missing -= given;
    }
}

/// Divides the rest within one priority. Returns the new rest.
fn over_quota(
    level: &mut [Claimant],
    group: std::ops::Range<usize>,
    mut rest: u64,
    feedback: Feedback,
    buffers: &mut Buffers,
) -> u64 {
    // By past usage first. Projects with far too much of it come after all others.
    for by_weight in [feedback.is_idle(&level[group.clone()]), true] {
        let open = || group.clone().zip(&level[group.clone()]).filter(|(_, it)| it.is_open());
        let weight = |it: &Claimant| u64::from(it.weight.thousandths());
        let total: u64 = open().map(|(_, it)| weight(it)).sum();
        buffers.askers.clear();
        buffers.askers.extend(open().filter_map(|(ix, it)| {
            let part = if by_weight { weight(it) } else { feedback.part(it, total) };
            let asker = || Asker { ix, part, want: it.want(), step: it.step, rest: None };
            (part > 0).then(asker)
        }));
        rest = fill(level, rest, &mut buffers.askers);
        if by_weight || rest == 0 {
            break;
        }
    }
    rest
}

/// Adds parts of a pool to the shares of askers, in proportion to their parts and at most what each
/// wants. Returns the rest: zero unless all get the most that they want.
fn fill(level: &mut [Claimant], pool: u64, askers: &mut Vec<Asker>) -> u64 {
    let mut rest = pool;
    let mut of: u128 = askers.iter().map(|it| u128::from(it.part)).sum();
    let wanted: u128 = askers.iter().map(|it| u128::from(it.want)).sum();
    if wanted <= u128::from(pool) {
        for it in &*askers {
            level[it.ix].share += it.want;
            rest -= it.want;
        }
        return rest;
    }
    // An asker that wants less than its part leaves the rest of it to the others.
    let fits = |it: &Asker, rest: u64, of: u128| {
        of.checked_mul(u128::from(it.want))
            .is_some_and(|needed| needed <= u128::from(rest) * u128::from(it.part))
    };
    let mut n_passes = 0;
    loop {
        let before = askers.len();
        if n_passes == PASSES {
            // Askers that want the least for their part fit first; the others follow in one pass.
            let per_part =
                |it: &Asker| (Ratio::new(u128::from(it.want), u128::from(it.part)), it.ix);
            askers.sort_by_key(|it| Reverse(per_part(it)));
            while let Some(it) = askers.last()
                && fits(it, rest, of)
            {
                level[it.ix].share += it.want;
                rest -= it.want;
                of -= u128::from(it.part);
                askers.pop();
            }
            break;
        }
        n_passes += 1;
        let (pool, sum) = (rest, of);
        askers.retain(|it| {
            if !fits(it, pool, sum) {
                return true;
            }
            level[it.ix].share += it.want;
            rest -= it.want;
            of -= u128::from(it.part);
            false
        });
        if askers.len() == before {
            break;
        }
    }
    cut_to_steps(level, rest, of, askers)
}

/// Gives each asker the whole steps of its part, and the rest to the askers that lack the least of
/// a step. All want more than their part, so nothing is left.
fn cut_to_steps(level: &mut [Claimant], pool: u64, of: u128, askers: &mut [Asker]) -> u64 {
    let mut rest = pool;
    for it in &mut *askers {
        if let Err(cut) = cut(pool, it.part, of, it.want, it.step) {
            level[it.ix].share += cut.whole_part;
            it.want -= cut.whole_part;
            it.rest = cut.rest.and_then(|rest| rest.per(it.step));
            rest -= cut.whole_part;
        }
    }
    if rest == 0 {
        return 0;
    }
    askers.sort_by_key(|it| (Reverse(it.rest), it.ix));
    // One step each, while whole ones are left.
    for it in askers.iter_mut().filter(|it| it.rest.is_some()) {
        if it.step.min(it.want) <= rest {
            rest -= give(level, it, it.step);
            it.rest = None;
        }
    }
    // Askers with smaller steps divide the rest, then take one step each.
    let fits = |it: &Asker, rest: u64| it.want > 0 && it.step <= rest;
    let pool = rest;
    let of = askers.iter().filter(|it| fits(it, pool)).map(|it| u128::from(it.part)).sum();
    for it in askers.iter_mut().filter(|it| fits(it, pool)) {
        let most = match cut(pool, it.part, of, it.want, it.step) {
            Ok(_) => it.want,
            Err(cut) => cut.whole_part,
        };
        rest -= give(level, it, most);
    }
    for it in &mut *askers {
        if fits(it, rest) {
            rest -= give(level, it, it.step);
        }
    }
    // A rest smaller than every step goes to askers that got no step, then to any.
    for it in askers.iter_mut().filter(|it| it.rest.is_some()) {
        rest -= give(level, it, rest);
    }
    for it in askers {
        rest -= give(level, it, rest);
    }
    rest
}

/// Gives an asker at most `most`, and no more than it wants. Returns the amount.
fn give(level: &mut [Claimant], asker: &mut Asker, most: u64) -> u64 {
    let given = most.min(asker.want);
    level[asker.ix].share += given;
    asker.want -= given;
    given
}
