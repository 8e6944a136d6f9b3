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
//! 5. Guarantees count as far as the capacity covers them.

use super::ledger::Ledger;
use super::ratio::Ratio;
use super::tree::{Row, Tree};

/// A project that reclaims, and its job.
#[derive(Debug, Clone, Copy)]
pub struct Reclaimer<'a> {
    /// The leaf of the job.
    pub project: Row,
    /// The charge of the job, by kind.
    pub unit: &'a [u64],
    /// Whether the job could be evicted later.
    pub preemptible: bool,
}

/// One job that would leave.
#[derive(Debug, Clone, Copy)]
pub struct Victim<'a> {
    /// The leaf that it is charged to.
    pub project: Row,
    /// Its charge, by kind.
    pub piece: &'a [u64],
}

/// Why a project may not reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The project would have more than its share.
    OverShare {
        /// The kind.
        kind: usize,
    },
    /// Jobs that can't be evicted would exceed the guarantee.
    OverGuaranteed {
        /// Of the project, or one above it.
        project: Row,
        /// The kind.
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
        project: Row,
        /// Its sibling that loses jobs.
        other: Row,
        /// The kind.
        kind: usize,
    },
    /// The victim's project could reclaim the capacity at once.
    TakenBack {
        /// The position of the victim.
        victim: usize,
    },
}

/// The rules, for any tree and ledger, with memory for the check.
#[derive(Debug, Clone, Default)]
pub struct Reclaim {
    // The usage of each kind without the victims, for the rows in `touched`.
    held: Vec<u64>,
    // By row: the kinds of the victims there, as bits.
    kinds: Vec<u64>,
    is_touched: Vec<bool>,
    touched: Vec<Row>,
    path: Vec<Row>,
}

impl Reclaim {
    /// The gate: whether a project may reclaim for a job at all.
    ///
    /// # Errors
    /// If it would exceed its share, or jobs that can't be evicted would exceed its guarantee.
    pub fn gate(&mut self, ledger: &Ledger, reclaimer: &Reclaimer<'_>) -> Result<(), Denied> {
        self.begin(ledger);
        self.within_share(ledger, reclaimer)?;
        match reclaimer.preemptible {
            true => Ok(()),
            false => self.within_guarantee(ledger, reclaimer, reclaimer.project),
        }
    }

    /// The check: whether these victims, in this order, may leave for a job. Jobs that move to
    /// another place are not among them.
    ///
    /// # Errors
    /// The reason why they may not.
    pub fn check(
        &mut self,
        tree: &Tree,
        ledger: &Ledger,
        reclaimer: &Reclaimer<'_>,
        victims: &[Victim<'_>],
    ) -> Result<(), Denied> {
        self.begin(ledger);
        for (ix, victim) in victims.iter().enumerate() {
            if !self.is_on_loan(tree, ledger, reclaimer, victim) {
                return Err(Denied::Own { victim: ix });
            }
            self.take(tree, ledger, victim);
            for row in tree.upwards(victim.project) {
                self.kinds[row.ix()] |= kinds_of(victim.piece);
            }
        }
        self.keeps_order(tree, ledger, reclaimer, &self.touched, None)?;
        if !reclaimer.preemptible {
            for project in tree.upwards(reclaimer.project) {
                self.within_guarantee(ledger, reclaimer, project)?;
            }
            return Ok(());
        }
        self.stays(tree, ledger, reclaimer, victims)
    }

    fn begin(&mut self, ledger: &Ledger) {
        for row in self.touched.drain(..) {
            self.is_touched[row.ix()] = false;
            self.kinds[row.ix()] = 0;
        }
        let n_rows = ledger.n_rows();
        self.held.resize(n_rows * ledger.n_kinds(), 0);
        self.kinds.resize(n_rows, 0);
        self.is_touched.resize(n_rows, false);
    }

    fn held(&self, ledger: &Ledger, row: Row, kind: usize) -> u64 {
        match self.is_touched[row.ix()] {
            true => self.held[row.ix() * ledger.n_kinds() + kind],
            false => ledger.account(row, kind).held,
        }
    }

    fn touch(&mut self, ledger: &Ledger, row: Row) -> &mut [u64] {
        let n_kinds = ledger.n_kinds();
        let held = &mut self.held[row.ix() * n_kinds..][..n_kinds];
        if !std::mem::replace(&mut self.is_touched[row.ix()], true) {
            self.touched.push(row);
            for (held, account) in held.iter_mut().zip(ledger.accounts(row)) {
                *held = account.held;
            }
        }
        held
    }

    fn take(&mut self, tree: &Tree, ledger: &Ledger, victim: &Victim<'_>) {
        for row in tree.upwards(victim.project) {
            for (held, amount) in self.touch(ledger, row).iter_mut().zip(victim.piece) {
                *held = held.saturating_sub(*amount);
            }
        }
    }

    fn give(&mut self, tree: &Tree, ledger: &Ledger, victim: &Victim<'_>) {
        for row in tree.upwards(victim.project) {
            for (held, amount) in self.touch(ledger, row).iter_mut().zip(victim.piece) {
                *held += amount;
            }
        }
    }

    fn within_share(&self, ledger: &Ledger, reclaimer: &Reclaimer<'_>) -> Result<(), Denied> {
        let row = reclaimer.project;
        for (kind, amount) in judged(reclaimer) {
            let share = ledger.account(row, kind).share;
            if !share.allows(self.held(ledger, row, kind) + amount) {
                return Err(Denied::OverShare { kind });
            }
        }
        Ok(())
    }

    fn within_guarantee(
        &self,
        ledger: &Ledger,
        reclaimer: &Reclaimer<'_>,
        project: Row,
    ) -> Result<(), Denied> {
        for (kind, amount) in judged(reclaimer) {
            let account = ledger.account(project, kind);
            if !account.guaranteed.allows(account.held_for_good + amount) {
                return Err(Denied::OverGuaranteed { project, kind });
            }
        }
        Ok(())
    }

    /// Whether a victim is over quota, as the reclaimer sees it: its side exceeds its own quota, or
    /// its guarantee if the reclaimer's side stays within its guarantee.
    fn is_on_loan(
        &self,
        tree: &Tree,
        ledger: &Ledger,
        reclaimer: &Reclaimer<'_>,
        victim: &Victim<'_>,
    ) -> bool {
        let Some((ours, theirs)) = tree.parting(reclaimer.project, victim.project) else {
            return false;
        };
        let entitled = judged(reclaimer).all(|(kind, amount)| {
            let account = ledger.account(ours, kind);
            account.guaranteed.allows(self.held(ledger, ours, kind) + amount)
        });
        let exceeds = |row: Row, kind: usize| {
            let (account, held) = (ledger.account(row, kind), self.held(ledger, row, kind));
            !account.own().allows(held) || (entitled && !account.guaranteed.allows(held))
        };
        judged(reclaimer).any(|(kind, _)| {
            victim.piece[kind] > 0
                && levels(tree, victim.project, theirs).all(|row| exceeds(row, kind))
        })
    }

    /// Whether on each level a project that exceeds its share for the job stays less saturated than
    /// its siblings among `losers`, in the kinds that are requested or lost. `lost` are these kinds
    /// if they are the same for all.
    fn keeps_order(
        &self,
        tree: &Tree,
        ledger: &Ledger,
        reclaimer: &Reclaimer<'_>,
        losers: &[Row],
        lost: Option<u64>,
    ) -> Result<(), Denied> {
        let asked = kinds_of(reclaimer.unit);
        for project in tree.upwards(reclaimer.project) {
            let siblings = losers
                .iter()
                .filter(|it| **it != project && tree.parent(**it) == tree.parent(project));
            for other in siblings {
                let involved = asked | lost.unwrap_or(self.kinds[other.ix()]);
                for kind in (0..ledger.n_kinds()).filter(|kind| involved >> kind & 1 == 1) {
                    let would = self.held(ledger, project, kind) + reclaimer.unit[kind];
                    if !self.stays_behind(ledger, project, would, *other, kind) {
                        return Err(Denied::MoreSaturated { project, other: *other, kind });
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a project with the usage `would` is within its share, or less saturated than
    /// another.
    fn stays_behind(
        &self,
        ledger: &Ledger,
        project: Row,
        would: u64,
        other: Row,
        kind: usize,
    ) -> bool {
        let (ours, theirs) = (ledger.account(project, kind), ledger.account(other, kind));
        if ours.share.allows(would) {
            return true;
        }
        let (Some(our_share), their_share) = (ours.share.finite(), theirs.share.finite()) else {
            return true;
        };
        match their_share {
            Some(0) => our_share > 0,
            // A project without a bound is never saturated.
            None => false,
            Some(their_share) => {
                let ours = Ratio::new(u128::from(would), u128::from(our_share));
                let held = u128::from(self.held(ledger, other, kind));
                let theirs = Ratio::new(held, u128::from(their_share));
                // A zero share has no ratio: any usage of it is the most saturated.
                ours.is_some_and(|ours| Some(ours) < theirs)
            }
        }
    }

    /// Whether no victim's project could reclaim the capacity back for the victim.
    fn stays(
        &mut self,
        tree: &Tree,
        ledger: &Ledger,
        reclaimer: &Reclaimer<'_>,
        victims: &[Victim<'_>],
    ) -> Result<(), Denied> {
        let gained = Victim { project: reclaimer.project, piece: reclaimer.unit };
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        path.extend(tree.upwards(gained.project));
        self.give(tree, ledger, &gained);
        let returns = victims.iter().position(|victim| {
            let back = Reclaimer { project: victim.project, unit: victim.piece, preemptible: true };
            if self.within_share(ledger, &back).is_err()
                || !self.is_on_loan(tree, ledger, &back, &gained)
            {
                return false;
            }
            self.take(tree, ledger, &gained);
            let lost = Some(kinds_of(gained.piece));
            let ordered = self.keeps_order(tree, ledger, &back, &path, lost);
            self.give(tree, ledger, &gained);
            ordered.is_ok()
        });
        self.path = path;
        match returns {
            None => Ok(()),
            Some(victim) => Err(Denied::TakenBack { victim }),
        }
    }
}

/// The kinds of a job's charge, with its amounts.
fn judged<'a>(reclaimer: &Reclaimer<'a>) -> impl Iterator<Item = (usize, u64)> + use<'a> {
    let unit = reclaimer.unit.iter().copied().enumerate();
    unit.filter(|(_, amount)| *amount > 0)
}

/// A project and the projects above it, up to and including one of them.
fn levels(tree: &Tree, from: Row, to: Row) -> impl Iterator<Item = Row> + '_ {
    let mut done = false;
    tree.upwards(from).take_while(move |row| !std::mem::replace(&mut done, *row == to))
}

/// The kinds with an amount, as bits.
fn kinds_of(amounts: &[u64]) -> u64 {
    amounts.iter().enumerate().fold(0, |set, (kind, amount)| set | u64::from(*amount > 0) << kind)
}
