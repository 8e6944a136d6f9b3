//! The division of one kind among siblings as preset `kai` does it (SCHEDULING A2).
//!
//! Each takes first what it is guaranteed and asks for. What is left over goes by priority, and
//! among equals by weight in rounds: who wants no more than its part gets what it wants, the
//! others get the whole steps of theirs. What the cutting left is then given out a step each, to
//! whom most was cut off. Amounts are whole numbers of a small unit and parts are exact ratios, so
//! where the original divides in floating point this divides exactly.

use std::cmp::Reverse;
use std::ops::Range;

use super::Buffers;
use super::claimant::{Claimant, Feedback, cut, groups};
use super::ratio::Ratio;

/// Divides `total`: both phases. `level` is in the order of [`Tree`](super::Tree). Returns what
/// nobody took; 0 where more is guaranteed than there is, for then nobody's guarantee is cut.
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

/// First phase: what each is guaranteed, as far as it asks for it. Returns what is left over.
fn guaranteed(level: &mut [Claimant], total: u64) -> u64 {
    let mut rest = total;
    for it in level {
        it.share = it.guaranteed.finite().unwrap_or(total).min(it.claim);
        rest = rest.saturating_sub(it.share);
    }
    rest
}

/// Second and third phase: divides `rest`, over and above the shares that are there. Returns what
/// nobody took.
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

/// Gives a group of one priority all it can take in whole steps; notes what was cut off.
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
                    // What an earlier round cut off stays noted if this one cuts nothing off.
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

/// Third phase: a step each, by priority, then by how much was cut off, then by age.
fn remainders(level: &mut [Claimant], mut rest: u64, step: u64, buffers: &mut Buffers) -> u64 {
    let Buffers { notes, order, .. } = buffers;
    order.clear();
    order.extend(notes.iter().zip(0..).filter_map(|(note, ix)| note.map(|_| ix)));
    // The level is sorted by priority, age and id: so is what ties here, for sorting keeps order.
    order.sort_by_key(|&ix| (Reverse(level[ix].priority), Reverse(notes[ix])));
    for &ix in &*order {
        let given = step.min(rest);
        level[ix].share += given;
        rest -= given;
    }
    rest
}
