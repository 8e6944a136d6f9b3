//! The rule of reclaim: cases that the public ones do not cover (scheduling.md A11), and the
//! differences between the presets `fair` and `kai`.

use gpool_kai::shares::{Multiplier, Reclaim};
use gpool_model::Amount;
use gpool_sched::fairshare::{Account, Denied, Ledger, Member, Reclaimer, Row, Tree, Victim};

use crate::both::{self, BOTH, Rules};

/// Projects by letter; the parent of each comes before it.
struct Index {
    tree: Tree,
    names: Vec<&'static str>,
    ledger: Ledger,
}

pub(crate) fn bound(amount: Option<u64>) -> Amount {
    amount.map_or(Amount::UNLIMITED, |it| Amount::of(it).unwrap())
}

/// The guarantee, share and own usage of a project for one kind.
fn account(guaranteed: u64, share: u64, held: u64) -> Account {
    let (guaranteed, share) = (bound(Some(guaranteed)), bound(Some(share)));
    Account { guaranteed, share, held, ..Account::EMPTY }
}

/// Each project has a name, a parent, and an account for each kind. Leaves use what their accounts
/// contain, departments the sum.
fn index(projects: &[(&'static str, &str, &[Account])]) -> Index {
    let names: Vec<&str> = projects.iter().map(|it| it.0).collect();
    let members: Vec<Member<usize>> = projects
        .iter()
        .enumerate()
        .map(|(id, it)| Member {
            parent: names.iter().position(|name| *name == it.1),
            priority: 0,
            created: 0,
            id,
        })
        .collect();
    let tree = Tree::new(&members).unwrap();
    let mut ledger = Ledger::new(&tree, projects[0].2.len());
    for (ix, (_, _, accounts)) in projects.iter().enumerate() {
        for (kind, account) in accounts.iter().enumerate() {
            ledger.set(tree.row(ix), kind, Account { held: 0, ..*account });
        }
    }
    for (ix, (_, _, accounts)) in projects.iter().enumerate() {
        if tree.is_leaf(tree.row(ix)) {
            let held: Vec<u64> = accounts.iter().map(|it| it.held).collect();
            ledger.add(&tree, tree.row(ix), &held, true);
        }
    }
    Index { tree, names, ledger }
}

impl Index {
    fn row(&self, name: &str) -> Row {
        self.tree.row(self.names.iter().position(|it| *it == name).unwrap())
    }

    fn gate(&self, rules: Rules, project: &str, unit: &[u64]) -> Result<(), Denied> {
        let reclaimer = Reclaimer { project: self.row(project), unit, preemptible: true };
        both::gate(rules, &self.ledger, &reclaimer)
    }

    fn check(
        &self,
        rules: Rules,
        project: &str,
        unit: &[u64],
        victims: &[(&str, &[u64])],
    ) -> Result<(), Denied> {
        let reclaimer = Reclaimer { project: self.row(project), unit, preemptible: true };
        let victims: Vec<Victim<'_>> =
            victims.iter().map(|(name, piece)| Victim { project: self.row(name), piece }).collect();
        both::check(rules, (&self.tree, &self.ledger), &reclaimer, &victims)
    }
}

const KAI: Rules = Rules::Kai;
const FAIR: Rules = Rules::Fair;

#[test]
fn what_is_on_loan_goes_and_what_is_its_own_stays() {
    let it = index(&[("a", "", &[account(2, 2, 1)]), ("b", "", &[account(2, 2, 3)])]);
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "a", &[1], &[("b", &[1])]), Ok(()));
        let two: &[(&str, &[u64])] = &[("b", &[1]), ("b", &[1])];
        assert_eq!(it.check(rules, "a", &[1], two), Err(Denied::Own { victim: 1 }));
    }
}

#[test]
fn no_project_reclaims_from_itself_or_from_its_department() {
    let it = index(&[
        ("dept", "", &[account(2, 2, 0)]),
        ("a", "dept", &[account(0, 9, 2)]),
        ("b", "", &[account(0, 0, 0)]),
    ]);
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "a", &[1], &[("a", &[1])]), Err(Denied::Own { victim: 0 }));
    }
}

#[test]
fn the_gate_is_the_projects_share() {
    let it = index(&[("a", "", &[account(0, 2, 1), account(0, 3, 5)])]);
    for rules in BOTH {
        assert_eq!(it.gate(rules, "a", &[2, 0]), Err(Denied::OverShare { kind: 0 }), "{rules:?}");
    }
    // It uses too many cores; with `fair` it may still claim a device that needs no cores.
    assert_eq!(it.gate(Rules::Kai, "a", &[1, 0]), Err(Denied::OverShare { kind: 1 }));
    assert_eq!(it.gate(Rules::Fair, "a", &[1, 0]), Ok(()));
    assert_eq!(it.gate(Rules::Fair, "a", &[1, 1]), Err(Denied::OverShare { kind: 1 }));
}

#[test]
fn what_can_never_be_taken_back_stays_within_the_guarantee_of_each_level() {
    let mut it = index(&[
        ("dept", "", &[account(2, 9, 0)]),
        ("a", "dept", &[account(3, 9, 0)]),
        ("b", "", &[account(0, 0, 5)]),
    ]);
    let a = it.row("a");
    it.ledger.add(&it.tree, a, &[1], false);
    for rules in BOTH {
        let check = |unit: &Reclaimer<'_>, victims: &[Victim<'_>]| {
            both::check(rules, (&it.tree, &it.ledger), unit, victims)
        };
        let victim = [Victim { project: it.row("b"), piece: &[3] }];
        let starts = |unit| Reclaimer { project: it.row("a"), unit, preemptible: false };
        assert_eq!(both::gate(rules, &it.ledger, &starts(&[2])), Ok(()), "{rules:?}");
        let over = Err(Denied::OverGuaranteed { project: it.row("a"), kind: 0 });
        assert_eq!(both::gate(rules, &it.ledger, &starts(&[3])), over, "{rules:?}");
        assert_eq!(check(&starts(&[1]), &victim), Ok(()));
        let over = Err(Denied::OverGuaranteed { project: it.row("dept"), kind: 0 });
        assert_eq!(check(&starts(&[2]), &victim), over);
    }
}

#[test]
fn a_claim_to_the_guarantee_takes_what_others_hold_within_their_share() {
    let it = index(&[("a", "", &[account(2, 2, 1)]), ("b", "", &[account(2, 4, 4)])]);
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "a", &[1], &[("b", &[1])]), Ok(()));
        // Two would exceed its guarantee.
        let denied = it.check(rules, "a", &[2], &[("b", &[1])]);
        assert_eq!(denied, Err(Denied::Own { victim: 0 }));
    }
}

#[test]
fn the_core_of_a_gang_goes_as_one_piece_even_below_the_guarantee() {
    let it = index(&[("a", "", &[account(1, 1, 0)]), ("b", "", &[account(3, 3, 4)])]);
    for rules in [KAI, FAIR] {
        assert_eq!(
            it.check(rules, "a", &[1], &[("b", &[4])]),
            Ok(()),
            "it holds more than its own"
        );
        let denied = it.check(rules, "a", &[1], &[("b", &[1]), ("b", &[3])]);
        assert_eq!(denied, Err(Denied::Own { victim: 1 }), "the extra task was enough");
    }
}

#[test]
fn departments_settle_it_where_the_ways_part() {
    // The second department is within its share, whatever its children use.
    let it = index(&[
        ("red", "", &[account(4, 4, 0)]),
        ("blue", "", &[account(4, 4, 0)]),
        ("red1", "red", &[account(2, 2, 1)]),
        ("red2", "red", &[account(2, 2, 3)]),
        ("blue1", "blue", &[account(1, 1, 4)]),
    ]);
    for rules in [KAI, FAIR] {
        let denied = it.check(rules, "red1", &[1], &[("blue1", &[1])]);
        assert_eq!(denied, Err(Denied::Own { victim: 0 }));
        assert_eq!(it.check(rules, "red1", &[1], &[("red2", &[1])]), Ok(()));
    }
}

#[test]
fn by_fair_the_excess_of_a_department_costs_no_child_within_its_guarantee() {
    let it = index(&[
        ("red", "", &[account(4, 4, 0)]),
        ("blue", "", &[account(4, 4, 0)]),
        ("red1", "red", &[account(4, 4, 2)]),
        ("blue1", "blue", &[account(2, 2, 4)]),
        ("blue2", "blue", &[account(2, 2, 2)]),
    ]);
    assert_eq!(it.check(KAI, "red1", &[1], &[("blue2", &[1])]), Ok(()));
    let denied = it.check(FAIR, "red1", &[1], &[("blue2", &[1])]);
    assert_eq!(denied, Err(Denied::Own { victim: 0 }));
    assert_eq!(it.check(FAIR, "red1", &[1], &[("blue1", &[1])]), Ok(()));
}

#[test]
fn by_fair_only_a_kind_that_is_asked_for_puts_a_piece_on_loan() {
    // The victim uses too many cores, but not too many devices.
    let it = index(&[
        ("a", "", &[account(2, 2, 0), account(9, 9, 0)]),
        ("b", "", &[account(2, 2, 2), account(1, 1, 4)]),
    ]);
    assert_eq!(it.check(KAI, "a", &[1, 0], &[("b", &[1, 2])]), Ok(()));
    let denied = it.check(FAIR, "a", &[1, 0], &[("b", &[1, 2])]);
    assert_eq!(denied, Err(Denied::Own { victim: 0 }));
    assert_eq!(it.check(FAIR, "a", &[0, 2], &[("b", &[0, 2])]), Ok(()));
}

/// A department that uses all of its 4, and one that exceeds its 4.
fn saturated(held: u64) -> Index {
    index(&[
        ("red", "", &[account(4, 4, 0)]),
        ("blue", "", &[account(4, 4, 0)]),
        ("red1", "red", &[account(1, 1, 0)]),
        ("red2", "red", &[account(3, 3, 4)]),
        ("blue1", "blue", &[account(4, 4, held)]),
    ])
}

#[test]
fn a_reclaimer_over_its_share_stays_less_saturated_than_its_victim() {
    // 5 of 4 against the rest of the other: 5 of 4 is a tie, 6 of 4 is not.
    let (red, blue) = (saturated(6), saturated(7));
    let at = Denied::MoreSaturated { project: red.row("red"), other: red.row("blue"), kind: 0 };
    for rules in [KAI, FAIR] {
        assert_eq!(red.check(rules, "red1", &[1], &[("blue1", &[1])]), Err(at));
        assert_eq!(blue.check(rules, "red1", &[1], &[("blue1", &[1])]), Ok(()));
    }
}

#[test]
fn the_multiplier_of_kai_demands_a_distance() {
    // 5 x 1.2 is 6 of 4: a tie with the rest of 7; 5 x 1.199 is less.
    let it = saturated(7);
    let at = Denied::MoreSaturated { project: it.row("red"), other: it.row("blue"), kind: 0 };
    let reclaimer = Reclaimer { project: it.row("red1"), unit: &[1], preemptible: true };
    let victims = [Victim { project: it.row("blue1"), piece: &[1] }];
    let check = |thousandths| {
        let rule = Reclaim::new(Multiplier::from_thousandths(thousandths).unwrap());
        rule.check(&it.tree, &it.ledger, &reclaimer, &victims)
    };
    assert_eq!(check(1200), Err(at));
    assert_eq!(check(1199), Ok(()));
    assert_eq!(Multiplier::from_thousandths(999), None);
}

#[test]
fn what_goes_from_the_own_department_counts_before_it_is_judged() {
    // A victim of its sibling frees a device in its own department, so one of the other department
    // is allowed too.
    let it = saturated(6);
    let victims: &[(&str, &[u64])] = &[("red2", &[1]), ("blue1", &[1])];
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "red1", &[1], victims), Ok(()));
    }
}

#[test]
fn by_kai_a_department_is_within_its_guarantee_or_not_as_it_was_before() {
    // The second is within its share. After its sibling gave one, the first would be within its
    // guarantee again.
    let it = index(&[
        ("red", "", &[account(4, 4, 0)]),
        ("blue", "", &[account(2, 4, 0)]),
        ("red1", "red", &[account(1, 1, 0)]),
        ("red2", "red", &[account(3, 3, 4)]),
        ("blue1", "blue", &[account(2, 4, 4)]),
    ]);
    let victims: &[(&str, &[u64])] = &[("red2", &[1]), ("blue1", &[1])];
    assert_eq!(it.check(KAI, "red1", &[1], victims), Err(Denied::Own { victim: 1 }));
    assert_eq!(it.check(FAIR, "red1", &[1], victims), Ok(()));
}

#[test]
fn a_reclaimer_over_its_share_does_not_reclaim_from_an_unlimited_share() {
    let boundless = |guaranteed: Option<u64>, held| Account {
        guaranteed: bound(guaranteed),
        limit: bound(Some(1)),
        share: Amount::UNLIMITED,
        held,
        ..Account::EMPTY
    };
    let it = index(&[("a", "", &[account(0, 1, 1)]), ("b", "", &[boundless(Some(0), 3)])]);
    let at = Denied::MoreSaturated { project: it.row("a"), other: it.row("b"), kind: 0 };
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "a", &[1], &[("b", &[1])]), Err(at));
    }
}

/// Two departments: the first has no share in this cycle, the second has `share`.
fn without_share(share: u64) -> Index {
    index(&[
        ("red", "", &[account(0, 0, 0)]),
        ("blue", "", &[account(0, share, 0)]),
        ("red1", "red", &[account(0, 1, 0)]),
        ("blue1", "blue", &[account(0, share, 4)]),
    ])
}

#[test]
fn a_share_of_nothing_is_saturated_by_anything() {
    let it = without_share(1);
    let at = Denied::MoreSaturated { project: it.row("red"), other: it.row("blue"), kind: 0 };
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "red1", &[1], &[("blue1", &[1])]), Err(at));
    }
    // From a department without a share: with `kai` each could reclaim from the other forever.
    let it = without_share(0);
    assert_eq!(it.check(KAI, "red1", &[1], &[("blue1", &[1])]), Ok(()));
    assert_eq!(it.check(FAIR, "red1", &[1], &[("blue1", &[1])]), Err(at));
}

#[test]
fn a_project_with_a_share_reclaims_from_one_without() {
    let it = index(&[("a", "", &[account(0, 1, 1)]), ("b", "", &[account(0, 0, 3)])]);
    for rules in [KAI, FAIR] {
        assert_eq!(it.check(rules, "a", &[1], &[("b", &[1])]), Ok(()), "2 of 1, but of nothing 2");
    }
}

#[test]
fn without_bound_nothing_is_on_loan_and_nothing_is_saturated() {
    let everything = |held| {
        let share = Amount::UNLIMITED;
        Account { guaranteed: Amount::UNLIMITED, share, held, ..Account::EMPTY }
    };
    let it = index(&[("a", "", &[everything(9)]), ("b", "", &[account(1, 1, 3)])]);
    for rules in BOTH {
        assert_eq!(it.gate(rules, "a", &[9]), Ok(()));
        assert_eq!(it.check(rules, "a", &[9], &[("b", &[1])]), Ok(()));
        let denied = it.check(rules, "b", &[1], &[("a", &[1])]);
        assert_eq!(denied, Err(Denied::Own { victim: 0 }));
    }
    // The own part ends at the limit.
    let limited = Account { limit: bound(Some(4)), ..everything(0) };
    assert_eq!(limited.own(), bound(Some(4)));
    assert_eq!(Account { guaranteed: Amount::NOTHING, ..limited }.own(), bound(Some(4)));
    assert_eq!(account(2, 3, 0).own(), bound(Some(3)));
    assert_eq!(account(3, 2, 0).own(), bound(Some(3)));
}

#[test]
fn by_fair_nothing_is_taken_that_could_be_taken_back_at_once() {
    // The second piece reduces the victim to 3 of its guaranteed 4, so it could reclaim the first
    // piece of 1 from a project that then exceeds its guarantee.
    let it = index(&[("a", "", &[account(1, 7, 0)]), ("b", "", &[account(4, 5, 10)])]);
    let victims: &[(&str, &[u64])] = &[("b", &[1]), ("b", &[6])];
    assert_eq!(it.check(KAI, "a", &[7], victims), Ok(()));
    assert_eq!(it.check(FAIR, "a", &[7], victims), Err(Denied::TakenBack { victim: 0 }));
    // A reclaimer with a guarantee for the pieces keeps them.
    let it = index(&[("a", "", &[account(7, 7, 0)]), ("b", "", &[account(4, 5, 10)])]);
    assert_eq!(it.check(FAIR, "a", &[7], victims), Ok(()));
}
