//! The rule for reclaiming between projects: the gate that a project must pass before a search for
//! victims, and the check of the victims that the search found. The search is elsewhere.
//!
//! The rule is that of KAI with these departures, each to keep a promise of `fair`:
//!
//! 1. Only resource kinds of the unit count: a project with too many cores keeps its claim to a
//!    device.
//! 2. A piece may be reclaimed only if it is over quota at every level up to the lowest common
//!    ancestor, in one kind that it has and that the unit needs. Otherwise the excess of a
//!    department would cost a child within its own guarantee.
//! 3. Between two projects without any entitlement, neither reclaims.
//! 4. A piece is not reclaimed if its project could reclaim it back at once.
//! 5. Guarantees count as far as the capacity covers them; for jobs that can't be evicted, as far
//!    as the installed capacity does.

use std::collections::BTreeMap;

use super::ledger::Ledger;
use super::ratio::Ratio;
use super::tree::{Tree, TreeIx};

/// A project that reclaims, and its job.
#[derive(Debug, Clone, Copy)]
pub struct Reclaimer<'a> {
    /// The leaf of the job.
    pub project: TreeIx,
    /// The charge of the job, by kind.
    pub unit: &'a [u64],
    /// Whether the job could be evicted later.
    pub preemptible: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Victim<'a> {
    /// The leaf that it is charged to.
    pub project: TreeIx,
    /// Its charge, by kind.
    pub piece: &'a [u64],
}

/// Why a project may not reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The project would have more than its share.
    OverShare { kind: usize },
    /// Jobs that can't be evicted would exceed the guarantee.
    OverGuaranteed {
        /// Of the project, or one above it.
        project: TreeIx,
        kind: usize,
    },
    /// A victim is within the quota of its project.
    Own {
        /// The position of the victim.
        victim: usize,
    },
    /// A project over its share would be at least as saturated as its victim's.
    MoreSaturated {
        /// The reclaimer, or one above it.
        project: TreeIx,
        /// Its sibling that loses jobs.
        other: TreeIx,
        kind: usize,
    },
    /// The victim's project could reclaim the capacity at once.
    TakenBack {
        /// The position of the victim.
        victim: usize,
    },
}

/// The gate: whether a project may reclaim for a job at all.
///
/// # Errors
/// If it would exceed its share, or jobs that can't be evicted would exceed its guarantee.
pub fn gate(ledger: &Ledger, reclaimer: &Reclaimer<'_>) -> Result<(), Denied> {
    let held = |kind| ledger.account(reclaimer.project, kind).held;
    within_share(ledger, reclaimer, &held)?;
    match reclaimer.preemptible {
        true => Ok(()),
        false => within_guarantee(ledger, reclaimer, reclaimer.project),
    }
}

/// The check: whether these victims, in this order, may leave for a job. Jobs that move to another
/// place are not among them.
pub fn check(
    tree: &Tree,
    ledger: &Ledger,
    reclaimer: &Reclaimer<'_>,
    victims: &[Victim<'_>],
) -> Result<(), Denied> {
    let mut usage = ProjectedUsage { tree, ledger, changed: BTreeMap::new() };
    for (ix, victim) in victims.iter().enumerate() {
        if !usage.is_on_loan(reclaimer, victim) {
            return Err(Denied::Own { victim: ix });
        }
        usage.change(victim, kinds_of(victim.piece), u64::saturating_sub);
    }
    let losers: Vec<(TreeIx, u64)> =
        usage.changed.iter().map(|(row, (_, kinds))| (*row, *kinds)).collect();
    usage.keeps_order(reclaimer, &losers)?;
    if !reclaimer.preemptible {
        let mut path = tree.upwards(reclaimer.project);
        return path.try_for_each(|project| within_guarantee(ledger, reclaimer, project));
    }
    usage.stays(reclaimer, victims)
}

fn within_share(
    ledger: &Ledger,
    reclaimer: &Reclaimer<'_>,
    held: &dyn Fn(usize) -> u64,
) -> Result<(), Denied> {
    for (kind, amount) in judged(reclaimer) {
        if !ledger.account(reclaimer.project, kind).share.allows(held(kind) + amount) {
            return Err(Denied::OverShare { kind });
        }
    }
    Ok(())
}

fn within_guarantee(
    ledger: &Ledger,
    reclaimer: &Reclaimer<'_>,
    project: TreeIx,
) -> Result<(), Denied> {
    for (kind, amount) in judged(reclaimer) {
        let account = ledger.account(project, kind);
        if !account.for_good().allows(account.held_for_good + amount) {
            return Err(Denied::OverGuaranteed { project, kind });
        }
    }
    Ok(())
}

/// The usage of all projects once some jobs have left.
struct ProjectedUsage<'l> {
    tree: &'l Tree,
    ledger: &'l Ledger,
    /// The usage by kind where it is not that of the ledger, and the kinds of the victims there, as
    /// bits.
    changed: BTreeMap<TreeIx, (Vec<u64>, u64)>,
}

impl ProjectedUsage<'_> {
    fn held(&self, row: TreeIx, kind: usize) -> u64 {
        match self.changed.get(&row) {
            Some((held, _)) => held[kind],
            None => self.ledger.account(row, kind).held,
        }
    }

    /// The usage without planned starts.
    fn present(&self, row: TreeIx, kind: usize) -> u64 {
        self.held(row, kind).saturating_sub(self.ledger.account(row, kind).planned)
    }

    /// Changes the usage of a job's project, and of all above it.
    fn change(&mut self, job: &Victim<'_>, kinds: u64, with: impl Fn(u64, u64) -> u64) {
        for row in self.tree.upwards(job.project) {
            let accounts = self.ledger.accounts(row);
            let before = || (accounts.iter().map(|account| account.held).collect(), 0);
            let (held, of_victims) = self.changed.entry(row).or_insert_with(before);
            held.iter_mut().zip(job.piece).for_each(|(held, amount)| *held = with(*held, *amount));
            *of_victims |= kinds;
        }
    }

    /// Whether a victim is over quota, as the reclaimer sees it: its side exceeds its own quota, or
    /// its guarantee if the reclaimer's side stays within its guarantee.
    fn is_on_loan(&self, reclaimer: &Reclaimer<'_>, victim: &Victim<'_>) -> bool {
        let Some((ours, theirs)) = self.tree.parting(reclaimer.project, victim.project) else {
            return false;
        };
        let entitled = judged(reclaimer).all(|(kind, amount)| {
            let account = self.ledger.account(ours, kind);
            account.guaranteed.allows(self.held(ours, kind) + amount)
        });
        let exceeds = |row: TreeIx, kind: usize| {
            let (account, held) = (self.ledger.account(row, kind), self.present(row, kind));
            !account.own().allows(held) || (entitled && !account.guaranteed.allows(held))
        };
        judged(reclaimer).any(|(kind, _)| {
            victim.piece[kind] > 0
                && levels(self.tree, victim.project, theirs).all(|row| exceeds(row, kind))
        })
    }

    /// Whether on each level a project that exceeds its share for the job stays less saturated than
    /// its siblings among `losers`, in the kinds that are requested or lost; these are with each
    /// loser.
    fn keeps_order(
        &self,
        reclaimer: &Reclaimer<'_>,
        losers: &[(TreeIx, u64)],
    ) -> Result<(), Denied> {
        let (tree, asked) = (self.tree, kinds_of(reclaimer.unit));
        for project in tree.upwards(reclaimer.project) {
            let is_sibling =
                |row: TreeIx| row != project && tree.parent(row) == tree.parent(project);
            for (other, lost) in losers.iter().copied().filter(|(row, _)| is_sibling(*row)) {
                let involved = asked | lost;
                for kind in (0..self.ledger.n_kinds()).filter(|kind| involved >> kind & 1 == 1) {
                    let would = self.held(project, kind) + reclaimer.unit[kind];
                    if !self.stays_behind(project, would, other, kind) {
                        return Err(Denied::MoreSaturated { project, other, kind });
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a project with the usage `would` is within its share, or less saturated than
    /// another.
    fn stays_behind(&self, project: TreeIx, would: u64, other: TreeIx, kind: usize) -> bool {
        let share = |row: TreeIx| self.ledger.account(row, kind).share;
        if share(project).allows(would) {
            return true;
        }
        match (share(project).finite(), share(other).finite()) {
            (None, _) => true,
            // A project without a bound is never saturated.
            (Some(_), None) => false,
            (Some(our_share), Some(0)) => our_share > 0,
            (Some(our_share), Some(their_share)) => {
                let ours = Ratio::new(u128::from(would), u128::from(our_share));
                let held = u128::from(self.present(other, kind));
                let theirs = Ratio::new(held, u128::from(their_share));
                // A zero share has no ratio: any usage of it is the most saturated.
                ours.is_some_and(|ours| Some(ours) < theirs)
            }
        }
    }

    /// Whether no victim's project could reclaim the capacity back for the victim.
    fn stays(&mut self, reclaimer: &Reclaimer<'_>, victims: &[Victim<'_>]) -> Result<(), Denied> {
        let gained = Victim { project: reclaimer.project, piece: reclaimer.unit };
        let lost = kinds_of(gained.piece);
        let path: Vec<(TreeIx, u64)> =
            self.tree.upwards(gained.project).map(|row| (row, lost)).collect();
        let add = |held: u64, amount: u64| held + amount;
        self.change(&gained, 0, add);
        for (ix, victim) in victims.iter().enumerate() {
            let back = Reclaimer { project: victim.project, unit: victim.piece, preemptible: true };
            let held = |kind| self.held(back.project, kind);
            if within_share(self.ledger, &back, &held).is_err() || !self.is_on_loan(&back, &gained)
            {
                continue;
            }
            self.change(&gained, 0, u64::saturating_sub);
            let is_ordered = self.keeps_order(&back, &path).is_ok();
            self.change(&gained, 0, add);
            if is_ordered {
                return Err(Denied::TakenBack { victim: ix });
            }
        }
        Ok(())
    }
}

/// The kinds of a job's charge, with its amounts.
fn judged<'a>(reclaimer: &Reclaimer<'a>) -> impl Iterator<Item = (usize, u64)> + use<'a> {
    let unit = reclaimer.unit.iter().copied().enumerate();
    unit.filter(|(_, amount)| *amount > 0)
}

/// A project and the projects above it, up to and including one of them.
fn levels(tree: &Tree, from: TreeIx, to: TreeIx) -> impl Iterator<Item = TreeIx> + '_ {
    let mut done = false;
    tree.upwards(from).take_while(move |row| !std::mem::replace(&mut done, *row == to))
}

/// The kinds with an amount, as bits.
fn kinds_of(amounts: &[u64]) -> u64 {
    amounts.iter().enumerate().fold(0, |set, (kind, amount)| set | u64::from(*amount > 0) << kind)
}
