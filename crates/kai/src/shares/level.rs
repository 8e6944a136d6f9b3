//! Divides one resource kind among siblings by KAI's rules.
//!
//! Each project first gets its request up to its guarantee. The rest goes by priority, and among
//! equals by weight in rounds: a project that wants no more than its part gets all of it, the
//! others get whole steps. The remainders then go a step each to the projects that lost most by
//! rounding.
//! Amounts are whole numbers of a small unit and parts are exact ratios, so where the original
//! divides in floating point this divides exactly.

use std::cmp::Reverse;
use std::ops::Range;

use gpool_sched::fairshare::{Claimant, Feedback, Ratio, cut, groups};

/// Memory of a division, reused between calls.
#[derive(Debug, Default)]
pub struct Buffers {
    notes: Vec<Option<Ratio>>,
    order: Vec<usize>,
}

/// Divides `total` among siblings in the order of [`Tree`](gpool_sched::fairshare::Tree). Returns
/// the rest; 0 where guarantees exceed the total, because no guarantee is cut.
pub fn divide(
    level: &mut [Claimant],
    total: u64,
    step: u64,
    feedback: Feedback,
    buffers: &mut Buffers,
) -> u64 {
    let rest = guaranteed(level, total);
    over_quota(level, rest, step, feedback, buffers)
}

/// First phase: requests up to the guarantees. Returns the rest.
fn guaranteed(level: &mut [Claimant], total: u64) -> u64 {
    let mut rest = total;
    for it in level {
        it.share = it.guaranteed.finite().unwrap_or(total).min(it.claim);
        rest = rest.saturating_sub(it.share);
    }
    rest
}

/// Second and third phase: divides `rest` on top of the present shares. Returns the rest of it.
pub fn over_quota(
    level: &mut [Claimant],
    mut rest: u64,
    step: u64,
    feedback: Feedback,
    buffers: &mut Buffers,
) -> u64 {
    let notes = &mut buffers.notes;
    notes.clear();
    notes.resize(level.len(), None);
    let mut start = 0;
    while rest > 0 && start < level.len() {
        let group = group_at(level, start);
        start = group.end;
        rest = rounds(&mut level[group.clone()], rest, step, feedback, &mut notes[group]);
    }
    if rest > 0 && notes.iter().any(Option::is_some) {
        rest = remainders(level, rest, step, buffers);
    }
    rest
}

fn group_at(level: &[Claimant], start: usize) -> Range<usize> {
    let group = groups(&level[start..]).next().unwrap_or(0..0);
    start + group.start..start + group.end
}

/// Gives a group of one priority all it can take in whole steps; notes the remainders.
fn rounds(
    group: &mut [Claimant],
    mut rest: u64,
    step: u64,
    feedback: Feedback,
    notes: &mut [Option<Ratio>],
) -> u64 {
    let by_weight = feedback.is_idle(group);
    loop {
        let pool = rest;
        let open = || group.iter().filter(|it| it.is_open());
        let total: u64 = open().map(|it| u64::from(it.weight.thousandths())).sum();
        let part = |it: &Claimant| match by_weight {
            true => u64::from(it.weight.thousandths()),
            false => feedback.part(it, total),
        };
        let of: u128 = open().map(|it| u128::from(part(it))).sum();
        if of == 0 {
            return rest;
        }
        let mut again = false;
        for (it, note) in group.iter_mut().zip(&mut *notes) {
            if !it.is_open() {
                continue;
            }
            let want = it.want();
            let given = match cut(pool, part(it), of, want, step) {
                Ok(wanted_less) => {
                    again |= wanted_less;
                    *note = None;
                    want
                }
                Err(cut) => {
                    // A remainder of an earlier round stays noted if this round has none.
                    *note = cut.rest.or(*note);
                    cut.given
                }
            };
            it.share += given;
            rest -= given;
        }
        if !again || rest == 0 {
            return rest;
        }
    }
}

/// Third phase: a step each, by priority, then by remainder, then by age.
fn remainders(level: &mut [Claimant], mut rest: u64, step: u64, buffers: &mut Buffers) -> u64 {
    let Buffers { notes, order, .. } = buffers;
    order.clear();
    order.extend(notes.iter().zip(0..).filter_map(|(note, ix)| note.map(|_| ix)));
    // The sort is stable, and the level is sorted by priority, age and ID: ties keep that order.
    order.sort_by_key(|&ix| (Reverse(level[ix].priority), Reverse(notes[ix])));
    for &ix in &*order {
        let given = step.min(rest);
        level[ix].share += given;
        rest -= given;
    }
    rest
}
