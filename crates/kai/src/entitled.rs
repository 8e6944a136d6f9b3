//! What projects are entitled to in a cycle, and how siblings are ordered by it.

use std::cmp::Ordering;

use crate::index::Index;
use crate::input::{Amounts, Kind};
use crate::settings::Settings;
use crate::state::State;

/// A number for each quantity, or no bound.
pub(crate) type Bounds = [Option<i64>; 3];

/// What a project is entitled to.
#[derive(Debug, Clone)]
pub(crate) struct Entitled {
    /// By right.
    pub guaranteed: Bounds,
    /// At most.
    pub limit: Bounds,
    /// In this cycle.
    pub fair: Amounts,
    /// The amount that it may have before other projects go first.
    pub allowed: Bounds,
}

/// The capacity, and the shares of projects.
#[derive(Debug)]
pub(crate) struct Entitlements {
    pub projects: Vec<Entitled>,
    pub total: Amounts,
}

/// What stands for a project when it is compared with its siblings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    /// What its next job would place.
    pub request: Amounts,
    /// The amounts that reclaims would take from it.
    pub losses: Amounts,
}

/// A number that may be a ratio.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    over: i128,
    under: i128,
}

impl Ratio {
    fn cmp(self, other: Self) -> Ordering {
        let ours = self.over.saturating_mul(other.under);
        ours.cmp(&other.over.saturating_mul(self.under))
    }
}

impl Entitlements {
    /// Which of two siblings comes first.
    pub(crate) fn compare(
        &self,
        state: &State<'_>,
        settings: &Settings,
        (a, for_a): (usize, &Claim),
        (b, for_b): (usize, &Claim),
    ) -> Ordering {
        let (row_a, row_b) = (&state.index.projects[a], &state.index.projects[b]);
        let older = row_a.created.cmp(&row_b.created).then(a.cmp(&b));
        if !settings.quotas {
            return older;
        }
        let (has_a, has_b) = (state.allocated[a], state.allocated[b]);
        let (mine, theirs) = (&self.projects[a], &self.projects[b]);
        mine.overused(has_a)
            .cmp(&theirs.overused(has_b))
            .then_with(|| {
                let starved_a =
                    crate::index::charge::within(has_a + for_a.request, mine.guaranteed);
                let starved_b =
                    crate::index::charge::within(has_b + for_b.request, theirs.guaranteed);
                starved_b.cmp(&starved_a)
            })
            .then_with(|| row_b.priority.cmp(&row_a.priority))
            .then_with(|| {
                let without_a = mine.without_share(has_a + for_a.request);
                without_a.cmp(&theirs.without_share(has_b + for_b.request))
            })
            .then_with(|| {
                let with_a = self.dominant(a, has_a + for_a.request - for_a.losses);
                with_a.cmp(self.dominant(b, has_b + for_b.request - for_b.losses))
            })
            .then_with(|| self.dominant(a, has_a).cmp(self.dominant(b, has_b)))
            .then_with(|| smaller(&mine.allowed, &theirs.allowed))
            .then(older)
    }

    /// Returns the dominant share of a project: the largest fraction of its share of any quantity.
    fn dominant(&self, project: usize, has: Amounts) -> Ratio {
        let mut most = Ratio { over: 0, under: 1 };
        for (kind, allowed) in Kind::ALL.into_iter().zip(self.projects[project].allowed) {
            // GPUs are counted in thousandths; where there is no share they count as GPUs.
            let unit = if kind == Kind::Gpu { 1 } else { 1000 };
            let share = match allowed.unwrap_or(self.total[kind]) {
                0 => Ratio { over: i128::from(has[kind]) * unit, under: 1 },
                allowed => Ratio { over: i128::from(has[kind]), under: i128::from(allowed) },
            };
            if share.cmp(most) == Ordering::Greater {
                most = share;
            }
        }
        most
    }

    /// For each project, by row.
    pub(crate) fn of(index: &Index, projects: Vec<Entitled>) -> Self {
        Self { projects, total: index.total }
    }
}

impl Entitled {
    /// By right, of one kind.
    pub(crate) fn guaranteed(&self, kind: Kind) -> Option<i64> {
        Kind::ALL.iter().zip(self.guaranteed).find(|(it, _)| **it == kind).and_then(|(_, it)| it)
    }

    fn overused(&self, has: Amounts) -> bool {
        Kind::ALL.into_iter().all(|kind| self.fair[kind] < has[kind])
    }

    fn without_share(&self, would_have: Amounts) -> bool {
        Kind::ALL
            .into_iter()
            .zip(self.allowed)
            .any(|(kind, allowed)| allowed == Some(0) && would_have[kind] > 0)
    }
}

/// Less of something and more of nothing comes first.
fn smaller(a: &Bounds, b: &Bounds) -> Ordering {
    let compared = a.iter().zip(b).map(|(a, b)| match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        (None, None) => Ordering::Equal,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
    });
    let (mut less, mut more) = (false, false);
    for one in compared {
        less |= one == Ordering::Less;
        more |= one == Ordering::Greater;
    }
    match (less, more) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}
