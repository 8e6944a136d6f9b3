//! Invariants of every division, for random siblings and random trees.

use std::cmp::Reverse;

use gpool_kai::shares as kai;
use gpool_model::{Amount, Quota, Weight};
use gpool_scenario::config;
use gpool_sched::fairshare::{Ask, Buffers, Claimant, Division, Feedback, Member, Method, Tree};
use proptest::prelude::*;

use crate::both::{self, BOTH, Rules};

/// An amount in thousandths: mostly whole devices, sometimes fractions.
fn amounts(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![4 => (0..=most).prop_map(|it| it * 1000), 1 => 0..=most * 1000]
}

fn bounds(most: u64) -> impl Strategy<Value = Amount> {
    prop_oneof![
        6 => amounts(most).prop_map(|it| Amount::of(it).unwrap()),
        1 => Just(Amount::UNLIMITED),
    ]
}

fn claimants() -> impl Strategy<Value = Claimant> {
    let limit = prop_oneof![2 => Just(Amount::UNLIMITED), 1 => bounds(20)];
    let usage = prop_oneof![2 => Just(0_u32), 1 => 0..1_500_000_u32];
    let step = prop_oneof![3 => Just(1000_u64), 1 => Just(500), 1 => Just(250), 1 => 1..1000_u64];
    (bounds(12), limit, 0..6_u32, 0..3_i32, amounts(25), usage, step).prop_map(
        |(guaranteed, limit, weight, priority, asked, usage, step)| Claimant {
            guaranteed,
            limit,
            weight: Weight::from_thousandths(weight * 1000).unwrap(),
            priority,
            usage,
            claim: limit.cut(asked),
            step,
            share: 0,
            safe: guaranteed,
            kept: 0,
        },
    )
}

/// Siblings in the order of division.
fn levels() -> impl Strategy<Value = Vec<Claimant>> {
    prop::collection::vec(claimants(), 1..14).prop_map(|mut level| {
        level.sort_by_key(|it| Reverse(it.priority));
        level
    })
}

fn divide(rules: Rules, level: &[Claimant], total: u64, k: u32) -> (Vec<Claimant>, u64) {
    let mut level = level.to_vec();
    let feedback = Feedback::from_thousandths(k).unwrap();
    let rest = both::divide(rules, &mut level, total, feedback);
    (level, rest)
}

/// The part of each guarantee that is claimed.
fn by_right(level: &[Claimant], total: u64) -> Vec<u64> {
    level.iter().map(|it| it.guaranteed.finite().unwrap_or(total).min(it.claim)).collect()
}

fn sum(level: &[Claimant]) -> u64 {
    level.iter().map(|it| it.share).sum()
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn no_more_is_given_than_there_is_unless_guarantees_exceed_it(
        level in levels(), total in amounts(60), k in 0..3000_u32,
    ) {
        let right: u64 = by_right(&level, total).iter().sum();
        for rules in BOTH {
            let (divided, rest) = divide(rules, &level, total, k);
            if right <= total {
                prop_assert_eq!(sum(&divided) + rest, total, "{:?}", rules);
            } else {
                prop_assert_eq!(rest, 0, "{:?}", rules);
            }
        }
        // With `fair` only unlimited guarantees can exceed the total.
        let (divided, _) = divide(Rules::Fair, &level, total, k);
        let bounded = divided.iter().filter(|it| !it.guaranteed.is_unlimited());
        prop_assert!(bounded.map(|it| it.share).sum::<u64>() <= total);
    }

    #[test]
    fn no_share_exceeds_its_claim(
        level in levels(), total in amounts(60), k in 0..3000_u32,
    ) {
        for it in divide(Rules::Fair, &level, total, k).0 {
            prop_assert!(it.share <= it.claim, "{it:?}");
        }
        // With `kai` the last device may exceed the claim by less than a device.
        for it in divide(Rules::Kai, &level, total, k).0 {
            prop_assert!(it.share < it.claim + 1000 || it.share <= it.claim, "{it:?}");
        }
    }

    #[test]
    fn guarantees_are_met_where_there_is_enough(
        level in levels(), total in amounts(60), k in 0..3000_u32,
    ) {
        let right = by_right(&level, total);
        if right.iter().sum::<u64>() <= total {
            for rules in BOTH {
                for (it, right) in divide(rules, &level, total, k).0.iter().zip(&right) {
                    prop_assert!(it.share >= *right, "{rules:?} {it:?} {right}");
                }
            }
        }
    }

    #[test]
    fn too_many_guarantees_are_all_met_in_part(level in levels(), total in amounts(30)) {
        let promised: u128 =
            level.iter().filter_map(|it| it.guaranteed.finite()).map(u128::from).sum();
        for it in divide(Rules::Fair, &level, total, 0).0 {
            let Some(guaranteed) = it.guaranteed.finite().map(u128::from) else { continue };
            let part = if promised <= u128::from(total) {
                guaranteed
            } else {
                guaranteed * u128::from(total) / promised
            };
            let least = part.min(u128::from(it.claim)).saturating_sub(u128::from(it.step));
            prop_assert!(u128::from(it.share) >= least, "{it:?} {part}");
        }
    }

    #[test]
    fn nothing_is_left_while_a_claim_is_open(
        level in levels(), total in amounts(60), k in 0..3000_u32,
    ) {
        let (divided, rest) = divide(Rules::Fair, &level, total, k);
        let open = |it: &&Claimant| it.share < it.claim && it.weight > Weight::NONE;
        if let Some(open) = divided.iter().find(open) {
            prop_assert_eq!(rest, 0, "{:?}", open);
        }
        // With `kai` only recent usage can leave something unused.
        let (divided, rest) = divide(Rules::Kai, &level, total, 0);
        if let Some(open) = divided.iter().find(open) {
            prop_assert_eq!(rest, 0, "{:?}", open);
        }
    }

    #[test]
    fn a_higher_priority_is_met_before_a_lower_one_gets_more_than_its_right(
        level in levels(), total in amounts(60), k in 0..3000_u32,
    ) {
        let (divided, _) = divide(Rules::Fair, &level, total, k);
        let right = by_right(&level, total);
        for (ix, higher) in divided.iter().enumerate() {
            if higher.share < higher.claim && higher.weight > Weight::NONE {
                for (lower, right) in divided.iter().zip(&right).skip(ix) {
                    prop_assert!(
                        lower.priority == higher.priority || lower.share <= *right,
                        "{lower:?} before {higher:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn more_weight_is_never_less_by_more_than_a_step(
        level in levels(), total in amounts(60), ix in any::<prop::sample::Index>(),
        k in 0..3000_u32,
    ) {
        let ix = ix.index(level.len());
        let mut heavier = level.clone();
        heavier[ix].weight =
            Weight::from_thousandths(level[ix].weight.thousandths() + 1000).unwrap();
        let (before, _) = divide(Rules::Fair, &level, total, k);
        let (after, _) = divide(Rules::Fair, &heavier, total, k);
        let step = level.iter().map(|it| it.step).max().unwrap();
        let (before, after) = (&before[ix], &after[ix]);
        prop_assert!(after.share + step >= before.share, "{before:?} {after:?}");
        // With equal steps and without usage, it never gets less at all.
        if k == 0 && level.iter().all(|it| it.step == step && it.claim % step == 0) {
            prop_assert!(after.share >= before.share, "{before:?} {after:?}");
        }
    }

    #[test]
    fn asking_for_more_is_never_less(
        level in levels(), total in amounts(60), ix in any::<prop::sample::Index>(),
        more in amounts(10),
    ) {
        let ix = ix.index(level.len());
        let mut asking = level.clone();
        asking[ix].claim = asking[ix].limit.cut(asking[ix].claim + more);
        let (before, _) = divide(Rules::Fair, &level, total, 0);
        let (after, _) = divide(Rules::Fair, &asking, total, 0);
        let step = level.iter().map(|it| it.step).max().unwrap();
        let (before, after) = (&before[ix], &after[ix]);
        prop_assert!(after.share + step >= before.share, "{before:?} {after:?}");
    }

    #[test]
    fn in_another_unit_it_is_the_same(level in levels(), total in amounts(60), by in 1..50_u64) {
        let mut larger = level.clone();
        let times = |it: Amount| match it.finite() {
            Some(amount) => Amount::of(amount * by).unwrap(),
            None => Amount::UNLIMITED,
        };
        for it in &mut larger {
            it.guaranteed = times(it.guaranteed);
            it.limit = times(it.limit);
            it.claim *= by;
            it.step *= by;
        }
        let (one, rest) = divide(Rules::Fair, &level, total, 1000);
        let (many, large_rest) = divide(Rules::Fair, &larger, total * by, 1000);
        prop_assert_eq!(rest * by, large_rest);
        for (one, many) in one.iter().zip(&many) {
            prop_assert_eq!(one.share * by, many.share);
        }
        let mut buffers = kai::Buffers::default();
        let rest = kai::divide(&mut larger, total * by, 1000 * by, Feedback::ONE, &mut buffers);
        let (one, one_rest) = divide(Rules::Kai, &level, total, 1000);
        prop_assert_eq!(one_rest * by, rest);
        for (one, many) in one.iter().zip(&larger) {
            prop_assert_eq!(one.share * by, many.share);
        }
    }

    #[test]
    fn only_the_proportion_of_weights_matters(
        level in levels(), total in amounts(60), by in 1..9_u32,
    ) {
        let mut heavier = level.clone();
        for it in &mut heavier {
            it.weight = Weight::from_thousandths(it.weight.thousandths() * by).unwrap();
        }
        for rules in BOTH {
            for k in [0, 1000] {
                let shares = |level: &[Claimant]| -> Vec<u64> {
                    divide(rules, level, total, k).0.iter().map(|it| it.share).collect()
                };
                prop_assert_eq!(shares(&level), shares(&heavier), "{:?} {}", rules, k);
            }
        }
    }
}

/// A forest: for each project its parent (an earlier one), priority, age and quota.
type Forest = Vec<(Option<usize>, i32, u64, Quota)>;

fn quotas() -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![3 => Just(Amount::UNLIMITED), 1 => bounds(20)];
    (prop::option::weighted(0.8, bounds(10)), limit, 0..4_u32).prop_map(
        |(guaranteed, limit, weight)| Quota {
            guaranteed,
            limit,
            weight: Weight::from_thousandths(weight * 1000).unwrap(),
        },
    )
}

fn forests() -> impl Strategy<Value = Forest> {
    let project = (any::<prop::sample::Index>(), 0..3_u8, 0..2_i32, 0..3_u64, quotas());
    prop::collection::vec(project, 1..16).prop_map(|list| {
        list.into_iter()
            .enumerate()
            .map(|(ix, (parent, top, priority, created, quota))| {
                let parent = (ix > 0 && top > 0).then(|| parent.index(ix));
                (parent, priority, created, quota)
            })
            .collect()
    })
}

/// A change of a claim, of usage, or of the total.
#[derive(Debug, Clone)]
enum Happening {
    Asks(prop::sample::Index, u64, Option<u64>),
    Used(prop::sample::Index, u32),
    Total(u64),
}

fn happenings() -> impl Strategy<Value = Happening> {
    let smallest = prop::option::weighted(0.3, 1..1000_u64);
    prop_oneof![
        6 => (any::<prop::sample::Index>(), amounts(20), smallest)
            .prop_map(|(ix, milli, smallest)| Happening::Asks(ix, milli, smallest)),
        1 => (any::<prop::sample::Index>(), 0..1_000_000_u32)
            .prop_map(|(ix, usage)| Happening::Used(ix, usage)),
        1 => amounts(60).prop_map(Happening::Total),
    ]
}

/// The forest as members in a given order; `at[ix]` is the position of project `ix`.
fn laid_out(forest: &Forest, at: &[usize]) -> (Tree, Vec<Quota>) {
    let mut order: Vec<usize> = (0..forest.len()).collect();
    order.sort_by_key(|ix| at[*ix]);
    let members: Vec<Member<usize>> = order
        .iter()
        .map(|ix| {
            let (parent, priority, created, _) = forest[*ix];
            let parent = parent.map(|parent| order.iter().position(|ix| *ix == parent).unwrap());
            Member { parent, priority, created, id: *ix }
        })
        .collect();
    let quotas = order.iter().map(|ix| forest[*ix].3).collect();
    (Tree::new(&members).unwrap(), quotas)
}

/// Applies a change to the claims of the leaves.
fn happen(tree: &Tree, at: &[usize], division: &mut Division, happening: &Happening) {
    match happening {
        Happening::Asks(ix, milli, smallest) => {
            let leaves: Vec<usize> =
                (0..at.len()).filter(|ix| tree.is_leaf(tree.row(at[*ix]))).collect();
            let leaf = tree.row(at[leaves[ix.index(leaves.len())]]);
            division.ask(tree, leaf, Ask { requested: *milli, smallest: *smallest });
        }
        Happening::Used(ix, usage) => {
            division.set_usage(tree, tree.row(at[ix.index(at.len())]), *usage);
        }
        Happening::Total(total) => division.set_total(tree, *total, *total),
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn what_changed_alone_is_divided_anew_as_all_would_be(
        forest in forests(), happenings in prop::collection::vec(happenings(), 1..20),
        pauses in prop::collection::vec(any::<bool>(), 20), k in 0..2000_u32,
    ) {
        let at: Vec<usize> = (0..forest.len()).collect();
        let (tree, quotas) = laid_out(&forest, &at);
        let feedback = Feedback::from_thousandths(k).unwrap();
        let method = Method { step: 1000, feedback };
        let mut buffers = Buffers::default();
        let mut kept = Division::new(method, &tree, &quotas, 20_000);
        let mut cold = Division::new(method, &tree, &quotas, 20_000);
        for (happening, divide) in happenings.iter().zip(&pauses) {
            happen(&tree, &at, &mut kept, happening);
            happen(&tree, &at, &mut cold, happening);
            if *divide {
                kept.divide(&tree, &mut buffers);
            }
        }
        kept.divide(&tree, &mut buffers);
        cold.divide(&tree, &mut Buffers::default());
        prop_assert_eq!(kept.claimants(), cold.claimants());
        // A change of the total recomputes everything.
        let total = kept.total();
        let mut anew = kept.clone();
        anew.set_total(&tree, total + 1, total + 1);
        anew.set_total(&tree, total, total);
        anew.divide(&tree, &mut buffers);
        prop_assert_eq!(kept.claimants(), anew.claimants());
    }

    #[test]
    fn the_order_of_the_list_does_not_matter(
        forest in forests(), happenings in prop::collection::vec(happenings(), 1..20),
        shuffled in Just((0..16_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let straight: Vec<usize> = (0..forest.len()).collect();
        let shuffled: Vec<usize> =
            shuffled.into_iter().filter(|ix| *ix < forest.len()).collect();
        let method = Method { step: 1000, feedback: Feedback::ONE };
        let shares = |at: &[usize]| {
            let (tree, quotas) = laid_out(&forest, at);
            let mut division = Division::new(method, &tree, &quotas, 20_000);
            for happening in &happenings {
                happen(&tree, at, &mut division, happening);
            }
            division.divide(&tree, &mut Buffers::default());
            let claimants = division.claimants();
            at.iter().map(|at| claimants[tree.row(*at).ix()]).collect::<Vec<_>>()
        };
        prop_assert_eq!(shares(&straight), shares(&shuffled));
    }

    #[test]
    fn kept_guarantees_fit_into_their_department_and_satisfy_claims(
        forest in forests(), happenings in prop::collection::vec(happenings(), 1..20),
    ) {
        let at: Vec<usize> = (0..forest.len()).collect();
        let (tree, quotas) = laid_out(&forest, &at);
        let method = Method { step: 1000, feedback: Feedback::NONE };
        let mut division = Division::new(method, &tree, &quotas, 20_000);
        for happening in &happenings {
            happen(&tree, &at, &mut division, happening);
        }
        division.divide(&tree, &mut Buffers::default());
        let claimants = division.claimants();
        let levels = std::iter::once(None).chain(tree.departments().iter().copied().map(Some));
        for parent in levels {
            let level = &claimants[tree.children(parent)];
            let above = parent.map(|row| &claimants[row.ix()]);
            let cap = above.map_or(division.total(), |it| it.share);
            let kept = above.map_or(Some(division.total()), |it| it.safe.finite());
            let safe = level.iter().map(|it| it.safe).fold(Amount::NOTHING, Amount::plus);
            if let (Some(kept), Some(safe)) = (kept, safe.finite()) {
                prop_assert!(safe <= kept, "{safe} above {kept}");
            }
            if safe.is_unlimited() {
                continue;
            }
            // Children together get what their department has, as far as they claim it.
            let claims: u64 = level.iter().map(|it| it.claim).sum();
            let shares: u64 = level.iter().map(|it| it.share).sum();
            prop_assert_eq!(shares, cap.min(claims), "below {:?}", above);
            for it in level {
                prop_assert!(it.share >= it.kept, "{it:?}");
            }
            for row in tree.children(parent).map(|ix| tree.rows().nth(ix).unwrap()) {
                let it = &claimants[row.ix()];
                if let Some(safe) = it.safe.finite()
                    && tree.is_leaf(row)
                {
                    prop_assert!(it.share >= it.claim.min(safe - safe % it.step), "{it:?}");
                }
            }
        }
    }
}
