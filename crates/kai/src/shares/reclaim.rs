//! KAI's rule for reclaiming between projects: the gate that a project must pass before a search
//! for victims, and the check of the victims that the search found.

use gpool_sched::fairshare::{Account, Denied, Ledger, Ratio, Reclaimer, Row, Tree, Victim};

/// The factor between the saturations of a victim's side and of a reclaimer's side that exceeds its
/// share; in thousandths, at least 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multiplier(u32);

impl Multiplier {
    /// The victim's side must only stay more saturated.
    pub const ONE: Self = Self(1000);

    /// Returns the multiplier of that many thousandths; `None` below 1000.
    #[must_use]
    pub const fn from_thousandths(thousandths: u32) -> Option<Self> {
        if thousandths >= 1000 { Some(Self(thousandths)) } else { None }
    }

    /// Returns the thousandths.
    #[must_use]
    pub const fn thousandths(self) -> u32 {
        self.0
    }
}

/// The rule, with its saturation multiplier.
#[derive(Debug, Clone, Copy)]
pub struct Reclaim {
    multiplier: Multiplier,
}

impl Reclaim {
    /// Returns the rule for one multiplier.
    #[must_use]
    pub fn new(multiplier: Multiplier) -> Self {
        Self { multiplier }
    }

    /// Checks whether a project may reclaim for a unit at all.
    ///
    /// # Errors
    /// The unit would exceed its share, or its guarantee if the unit is not preemptible.
    pub fn gate(&self, ledger: &Ledger, reclaimer: &Reclaimer<'_>) -> Result<(), Denied> {
        for (kind, amount) in reclaimer.unit.iter().enumerate() {
            let account = ledger.account(reclaimer.project, kind);
            if !account.share.allows(account.held + amount) {
                return Err(Denied::OverShare { kind });
            }
        }
        match reclaimer.preemptible {
            true => Ok(()),
            false => within_guarantee(ledger, reclaimer, reclaimer.project),
        }
    }

    /// Checks whether these victims, in this order, may be evicted for the unit. Victims that find
    /// another place are not among them.
    ///
    /// # Errors
    /// The first rule that forbids it.
    pub fn check(
        &self,
        tree: &Tree,
        ledger: &Ledger,
        reclaimer: &Reclaimer<'_>,
        victims: &[Victim<'_>],
    ) -> Result<(), Denied> {
        let mut after = ledger.clone();
        // The kinds that each project loses, in the order of the victims.
        let mut lost: Vec<(Row, u64)> = Vec::new();
        for (ix, victim) in victims.iter().enumerate() {
            if !is_over_quota(tree, (ledger, &after), reclaimer, victim) {
                return Err(Denied::Own { victim: ix });
            }
            for row in tree.upwards(victim.project) {
                for (kind, amount) in victim.piece.iter().enumerate() {
                    let account = *after.account(row, kind);
                    let held = account.held.saturating_sub(*amount);
                    after.set(row, kind, Account { held, ..account });
                }
                let kinds = kinds_of(victim.piece);
                match lost.iter_mut().find(|(it, _)| *it == row) {
                    Some((_, all)) => *all |= kinds,
                    None => lost.push((row, kinds)),
                }
            }
        }
        self.keeps_order(tree, &after, reclaimer, &lost)?;
        if !reclaimer.preemptible {
            for project in tree.upwards(reclaimer.project) {
                within_guarantee(ledger, reclaimer, project)?;
            }
        }
        Ok(())
    }

    /// Checks on each level that a project that exceeds its share for the unit stays less saturated
    /// than each sibling that loses something, in the kinds that are requested or lost.
    fn keeps_order(
        &self,
        tree: &Tree,
        after: &Ledger,
        reclaimer: &Reclaimer<'_>,
        lost: &[(Row, u64)],
    ) -> Result<(), Denied> {
        let requested = kinds_of(reclaimer.unit);
        for project in tree.upwards(reclaimer.project) {
            let is_sibling = |it: Row| it != project && tree.parent(it) == tree.parent(project);
            for (other, kinds) in lost.iter().copied().filter(|(it, _)| is_sibling(*it)) {
                let involved = requested | kinds;
                for kind in (0..after.n_kinds()).filter(|kind| involved >> kind & 1 == 1) {
                    let would = after.account(project, kind).held + reclaimer.unit[kind];
                    let accounts = (after.account(project, kind), after.account(other, kind));
                    if !self.stays_behind(accounts, would) {
                        return Err(Denied::MoreSaturated { project, other, kind });
                    }
                }
            }
        }
        Ok(())
    }

    fn stays_behind(&self, (ours, theirs): (&Account, &Account), would: u64) -> bool {
        if ours.share.allows(would) {
            return true;
        }
        let Some(our_share) = ours.share.finite() else { return true };
        match theirs.share.finite() {
            Some(0) => true,
            // A share without bound is never saturated.
            None => false,
            Some(their_share) => {
                let over = u128::from(would) * u128::from(self.multiplier.thousandths());
                let ours = Ratio::new(over, u128::from(our_share) * 1000);
                let theirs = Ratio::new(u128::from(theirs.held), u128::from(their_share));
                // A share of nothing has no ratio: any holding saturates it most.
                ours.is_some_and(|ours| Some(ours) < theirs)
            }
        }
    }
}

fn within_guarantee(
    ledger: &Ledger,
    reclaimer: &Reclaimer<'_>,
    project: Row,
) -> Result<(), Denied> {
    for (kind, amount) in reclaimer.unit.iter().enumerate() {
        let account = ledger.account(project, kind);
        if !account.guaranteed.allows(account.held_for_good + amount) {
            return Err(Denied::OverGuaranteed { project, kind });
        }
    }
    Ok(())
}

/// Whether the victim's side holds more than its own, or more than its guarantee where the
/// reclaimer's side stays within its guarantee. The reclaimer's side counts as it was `before`.
fn is_over_quota(
    tree: &Tree,
    (before, after): (&Ledger, &Ledger),
    reclaimer: &Reclaimer<'_>,
    victim: &Victim<'_>,
) -> bool {
    let Some((ours, theirs)) = tree.parting(reclaimer.project, victim.project) else {
        return false;
    };
    let entitled = reclaimer.unit.iter().enumerate().all(|(kind, amount)| {
        let account = before.account(ours, kind);
        account.guaranteed.allows(account.held + amount)
    });
    after
        .accounts(theirs)
        .iter()
        .any(|it| !it.own().allows(it.held) || (entitled && !it.guaranteed.allows(it.held)))
}

/// Returns the kinds with a positive amount, as bits.
fn kinds_of(amounts: &[u64]) -> u64 {
    amounts.iter().enumerate().fold(0, |set, (kind, amount)| set | u64::from(*amount > 0) << kind)
}
