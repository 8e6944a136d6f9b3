//! Shrinks a failing run: leaves out the events that are not needed to break the same invariant.

use crate::broken::Invariant;
use crate::bug::Bug;
use crate::happening::{Happening, Kind, Role};
use crate::run::play;
use crate::scenario::Scenario;

/// More runs than this are not tried.
const TRIES: usize = 4000;

struct Shrinking {
    bug: Option<Bug>,
    invariant: Invariant,
    best: Scenario,
    left: usize,
}

/// The smallest run that was found which breaks that invariant.
#[must_use]
pub fn shrink(scenario: Scenario, bug: Option<Bug>, invariant: Invariant) -> Scenario {
    let mut shrinking = Shrinking { bug, invariant, best: scenario, left: TRIES };
    loop {
        let before = shrinking.best.clone();
        shrinking.without_kinds();
        shrinking.without_chunks();
        shrinking.with_smaller_numbers();
        shrinking.with_smaller_cluster();
        if shrinking.best == before || shrinking.left == 0 {
            return shrinking.best;
        }
    }
}

impl Shrinking {
    /// Keeps a smaller run if it breaks the same.
    fn keeps(&mut self, smaller: Scenario) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let outcome = play(&smaller.cluster, self.bug, false, &smaller.happenings);
        let is_kept = outcome.broken.is_some_and(|broken| broken.invariant == self.invariant);
        if is_kept {
            // What comes after the failure does not matter.
            let happenings = outcome.happenings;
            self.best = Scenario { happenings, ..smaller };
        }
        is_kept
    }

    fn with(&self, happenings: Vec<Happening>) -> Scenario {
        Scenario { cluster: self.best.cluster.clone(), happenings }
    }

    /// Leaves out all happenings of one kind, faults first.
    fn without_kinds(&mut self) {
        let by_role = |role| Kind::ALL.iter().filter(move |kind| kind.role() == role);
        for kind in by_role(Role::Fault).chain(by_role(Role::Wish)) {
            let mut happenings = self.best.happenings.clone();
            happenings.retain(|happening| happening.kind != *kind);
            if happenings.len() < self.best.happenings.len() {
                self.keeps(self.with(happenings));
            }
        }
    }

    /// Leaves out halves, quarters and so on, and in the end single happenings.
    fn without_chunks(&mut self) {
        let mut size = self.best.happenings.len().div_ceil(2);
        while size > 0 {
            let mut from = 0;
            while from < self.best.happenings.len() {
                let mut happenings = self.best.happenings.clone();
                happenings.drain(from..(from + size).min(happenings.len()));
                if !self.keeps(self.with(happenings)) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    /// Sets numbers to 0, or to half.
    fn with_smaller_numbers(&mut self) {
        let mut at = 0;
        while at < self.best.happenings.len() {
            for number in 0..self.best.happenings[at].numbers.len() {
                for smaller in [0, 1, 2] {
                    let Some(before) = self.best.happenings.get(at) else { return };
                    let value = before.numbers[number];
                    let new = if smaller == 2 { value / 2 } else { smaller };
                    if new.abs() >= value.abs() {
                        continue;
                    }
                    let mut happenings = self.best.happenings.clone();
                    happenings[at].numbers[number] = new;
                    if self.keeps(self.with(happenings)) {
                        break;
                    }
                }
            }
            at += 1;
        }
    }

    /// Takes nodes and devices away, and lets the server take one input at a time.
    fn with_smaller_cluster(&mut self) {
        let mut smaller = self.best.clone();
        smaller.cluster.batch = 1;
        if smaller != self.best {
            self.keeps(smaller);
        }
        for at in (0..self.best.cluster.nodes.len()).rev() {
            if self.best.cluster.nodes.len() > 1 {
                let mut smaller = self.best.clone();
                smaller.cluster.nodes.remove(at);
                if self.keeps(smaller) {
                    continue;
                }
            }
            for devices in 0..self.best.cluster.nodes[at].devices {
                let mut smaller = self.best.clone();
                smaller.cluster.nodes[at].devices = devices;
                if self.keeps(smaller) {
                    break;
                }
            }
        }
    }
}
