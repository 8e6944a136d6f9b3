//! A reclaim can't be reversed, and guarantees are kept: the invariants of scheduling.md E3 and E4
//! over random trees.

use std::cell::Cell;

use gpool_scenario::config;
use gpool_sched::fairshare::{Account, Ledger, Member, Reclaimer, Row, Tree, Victim};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::both::{self, BOTH, Rules};
use crate::reclaim::bound;

/// A random cluster with two kinds, the usage of its leaves in pieces, and an attempt to reclaim.
#[derive(Debug, Clone)]
struct Attempt {
    parents: Vec<Option<usize>>,
    accounts: Vec<[Account; 2]>,
    pieces: Vec<(prop::sample::Index, [u64; 2])>,
    reclaimer: prop::sample::Index,
    unit: [u64; 2],
    victims: Vec<prop::sample::Index>,
}

fn accounts() -> impl Strategy<Value = Account> {
    let bounds = || prop_oneof![9 => (0..7_u64).prop_map(Some), 1 => Just(None)];
    let limit = prop_oneof![3 => Just(None), 1 => (0..9_u64).prop_map(Some)];
    (bounds(), limit, 0..7_u64).prop_map(|(guaranteed, limit, share)| Account {
        guaranteed: bound(guaranteed).min(bound(limit)),
        limit: bound(limit),
        share: bound(Some(share)).min(bound(limit)),
        ..Account::EMPTY
    })
}

fn piece() -> impl Strategy<Value = [u64; 2]> {
    (0..4_u64, 0..3_u64).prop_map(|(one, two)| if one + two == 0 { [1, 0] } else { [one, two] })
}

fn attempts() -> impl Strategy<Value = Attempt> {
    let index = any::<prop::sample::Index>;
    let project = (index(), 0..2_u8, [accounts(), accounts()]);
    (
        prop::collection::vec(project, 2..8),
        prop::collection::vec((index(), piece()), 1..8),
        index(),
        piece(),
        prop::collection::vec(index(), 1..4),
    )
        .prop_map(|(projects, pieces, reclaimer, unit, victims)| Attempt {
            parents: projects
                .iter()
                .enumerate()
                .map(|(ix, (parent, inner, _))| (ix > 1 && *inner > 0).then(|| parent.index(ix)))
                .collect(),
            accounts: projects.into_iter().map(|it| it.2).collect(),
            pieces,
            reclaimer,
            unit,
            victims,
        })
}

/// An attempt that the rules allow, with the state before it.
struct Allowed {
    tree: Tree,
    before: Ledger,
    after: Ledger,
    reclaimer: Row,
    victims: Vec<(Row, [u64; 2])>,
}

impl Attempt {
    /// Carries it out if the rules allow it.
    fn carried_out(&self, rules: Rules) -> Option<Allowed> {
        let members: Vec<Member<usize>> = self
            .parents
            .iter()
            .enumerate()
            .map(|(id, parent)| Member { parent: *parent, priority: 0, created: 0, id })
            .collect();
        let tree = Tree::new(&members).unwrap();
        let mut ledger = Ledger::new(&tree, 2);
        for (ix, accounts) in self.accounts.iter().enumerate() {
            for (kind, account) in accounts.iter().enumerate() {
                ledger.set(tree.row(ix), kind, *account);
            }
        }
        let leaves: Vec<Row> = tree.rows().filter(|row| tree.is_leaf(*row)).collect();
        let held: Vec<(Row, [u64; 2])> = self
            .pieces
            .iter()
            .map(|(leaf, piece)| (leaves[leaf.index(leaves.len())], *piece))
            .collect();
        for (leaf, piece) in &held {
            ledger.add(&tree, *leaf, piece, true);
        }
        let mut chosen: Vec<usize> = self.victims.iter().map(|it| it.index(held.len())).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let victims: Vec<(Row, [u64; 2])> = chosen.iter().map(|ix| held[*ix]).collect();
        let project = leaves[self.reclaimer.index(leaves.len())];
        let reclaimer = Reclaimer { project, unit: &self.unit, preemptible: true };
        let lost: Vec<Victim<'_>> =
            victims.iter().map(|(project, piece)| Victim { project: *project, piece }).collect();
        both::gate(rules, &ledger, &reclaimer).ok()?;
        both::check(rules, (&tree, &ledger), &reclaimer, &lost).ok()?;
        let before = ledger.clone();
        for (leaf, piece) in &victims {
            ledger.remove(&tree, *leaf, piece, true);
        }
        ledger.add(&tree, project, &self.unit, true);
        Some(Allowed { tree, before, after: ledger, reclaimer: project, victims })
    }
}

/// Makes many attempts; `look` sees the allowed ones, and there must be enough of these.
fn of_allowed(rules: Rules, look: impl Fn(&Attempt, &Allowed) -> Result<(), TestCaseError>) {
    let seen = Cell::new(0);
    let mut runner = TestRunner::new(config(20_000));
    let result = runner.run(&attempts(), |attempt| match attempt.carried_out(rules) {
        None => Ok(()),
        Some(allowed) => {
            seen.set(seen.get() + 1);
            look(&attempt, &allowed)
        }
    });
    if let Err(error) = result {
        panic!("{rules:?}: {error}");
    }
    assert!(seen.get() > 100, "{rules:?}: only {} attempts were allowed", seen.get());
}

/// Whether a victim may reclaim its piece from the reclaimer.
fn returns(rules: Rules, attempt: &Attempt, it: &Allowed) -> bool {
    it.victims.iter().any(|(project, piece)| {
        let back = Reclaimer { project: *project, unit: piece, preemptible: true };
        let lost = [Victim { project: it.reclaimer, piece: &attempt.unit }];
        both::gate(rules, &it.after, &back).is_ok()
            && both::check(rules, (&it.tree, &it.after), &back, &lost).is_ok()
    })
}

#[test]
fn by_fair_the_reverse_reclaim_is_impossible() {
    of_allowed(Rules::Fair, |attempt, it| {
        prop_assert!(!returns(Rules::Fair, attempt, it));
        Ok(())
    });
}

#[test]
fn by_kai_the_reverse_reclaim_needs_a_victim_cut_below_its_guarantee() {
    of_allowed(Rules::Kai, |attempt, it| {
        // Between departments a kind without a request can decide, so the tree must be flat.
        let flat = attempt.parents.iter().all(Option::is_none);
        // A project with an unlimited guarantee is always below it.
        let cut = it.victims.iter().any(|(row, _)| {
            it.after.accounts(*row).iter().any(|it| it.guaranteed > bound(Some(it.held)))
        });
        prop_assert!(!flat || cut || !returns(Rules::Kai, attempt, it));
        Ok(())
    });
}

#[test]
fn by_fair_no_project_within_its_guarantee_is_a_victim() {
    of_allowed(Rules::Fair, |attempt, it| {
        for (row, piece) in &it.victims {
            // For some requested kind, it and all its ancestors below the common one used more than
            // their kept guarantee.
            let (_, side) = it.tree.parting(it.reclaimer, *row).unwrap();
            let mut levels: Vec<Row> = it.tree.upwards(*row).collect();
            let end = levels.iter().position(|row| *row == side).unwrap();
            levels.truncate(end + 1);
            let on_loan = (0..2).any(|kind| {
                piece[kind] > 0
                    && attempt.unit[kind] > 0
                    && levels.iter().all(|row| {
                        let account = it.before.account(*row, kind);
                        !account.guaranteed.allows(account.held)
                    })
            });
            prop_assert!(on_loan, "{:?}", it.before.accounts(*row));
        }
        Ok(())
    });
}

#[test]
fn the_order_of_saturation_is_kept() {
    for rules in BOTH {
        of_allowed(rules, |attempt, it| {
            for (victim, piece) in &it.victims {
                let (ours, theirs) = it.tree.parting(it.reclaimer, *victim).unwrap();
                for kind in (0..2).filter(|kind| attempt.unit[*kind] + piece[*kind] > 0) {
                    let (ours, theirs) =
                        (it.after.account(ours, kind), it.after.account(theirs, kind));
                    let share = |it: &Account| u128::from(it.share.finite().unwrap());
                    let held = |it: &Account| u128::from(it.held);
                    let within = held(ours) <= share(ours);
                    let behind = held(ours) * share(theirs) < held(theirs) * share(ours);
                    let nothing = share(theirs) == 0;
                    prop_assert!(within || behind || nothing, "{ours:?} {theirs:?}");
                }
            }
            Ok(())
        });
    }
}
