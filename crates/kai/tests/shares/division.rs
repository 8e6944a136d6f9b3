//! The division of shares, case by case: what the public cases do not cover (scheduling.md A11),
//! and the differences between the presets `fair` and `kai`.

use std::cmp::Reverse;
use std::fmt::Write as _;

use gpool_model::{Amount, Quota, Weight};
use gpool_sched::fairshare::{Ask, Buffers, Claimant, Division, Feedback, Member, Method, Tree};

use crate::both::{Rules, claimants, divide};

/// The claim and the quota of one project, in GPUs.
#[derive(Debug, Clone, Copy)]
struct Asks {
    milli: u64,
    guaranteed: Option<u64>,
    limit: Option<u64>,
    weight: u32,
    priority: i32,
    usage: u32,
    step: u64,
}

/// A project of weight one without a guarantee, with a claim in thousandths.
fn asks(milli: u64) -> Asks {
    let guaranteed = Some(0);
    Asks { milli, guaranteed, limit: None, weight: 1, priority: 0, usage: 0, step: 1000 }
}

impl Asks {
    fn guaranteed(self, gpus: u64) -> Self {
        Self { guaranteed: Some(gpus * 1000), ..self }
    }
    fn unlimited(self) -> Self {
        Self { guaranteed: None, ..self }
    }
    fn limit(self, gpus: u64) -> Self {
        Self { limit: Some(gpus * 1000), ..self }
    }
    fn weight(self, weight: u32) -> Self {
        Self { weight, ..self }
    }
    fn priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }
    fn used(self, percent: u32) -> Self {
        Self { usage: percent * 10_000, ..self }
    }
    fn step(self, step: u64) -> Self {
        Self { step, ..self }
    }

    fn claimant(self) -> Claimant {
        let bound = |it: Option<u64>| it.map_or(Amount::UNLIMITED, |it| Amount::of(it).unwrap());
        let guaranteed = bound(self.guaranteed);
        Claimant {
            guaranteed,
            limit: bound(self.limit),
            weight: Weight::from_thousandths(self.weight * 1000).unwrap(),
            priority: self.priority,
            usage: self.usage,
            claim: bound(self.limit).cut(self.milli),
            step: self.step,
            share: 0,
            safe: guaranteed,
            kept: 0,
        }
    }
}

/// The shares of siblings, oldest first, and the rest, as one line.
fn shares(rules: Rules, total: u64, k: u32, projects: &[Asks]) -> String {
    let mut level: Vec<(usize, Claimant)> =
        projects.iter().map(|it| it.claimant()).enumerate().collect();
    level.sort_by_key(|(ix, it)| (Reverse(it.priority), *ix));
    let (ixs, mut level): (Vec<usize>, Vec<Claimant>) = level.into_iter().unzip();
    let feedback = Feedback::from_thousandths(k).unwrap();
    let rest = divide(rules, &mut level, total, feedback);
    let mut by_age: Vec<(usize, u64)> =
        ixs.into_iter().zip(level.iter().map(|it| it.share)).collect();
    by_age.sort_unstable();
    let mut line = String::new();
    for (_, share) in by_age {
        write!(line, "{share} ").unwrap();
    }
    line + &format!("left {rest}")
}

fn both(total: u64, projects: &[Asks], line: &str) {
    for rules in [Rules::Kai, Rules::Fair] {
        assert_eq!(shares(rules, total, 0, projects), line, "{rules:?}");
    }
}

fn apart(total: u64, projects: &[Asks], kai: &str, fair: &str) {
    assert_eq!(shares(Rules::Kai, total, 0, projects), kai, "kai");
    assert_eq!(shares(Rules::Fair, total, 0, projects), fair, "fair");
}

#[test]
fn the_guarantee_comes_first_and_the_rest_goes_by_weight() {
    let projects = [asks(9000).guaranteed(2), asks(9000).guaranteed(1).weight(3)];
    both(7000, &projects, "3000 4000 left 0");
}

#[test]
fn an_odd_device_goes_to_whom_most_was_cut_off_and_then_to_the_oldest() {
    // Parts of 4 by weights 1:2:2 are 0.8, 1.6, 1.6.
    let three = [asks(9000), asks(9000).weight(2), asks(9000).weight(2)];
    both(4000, &three, "1000 2000 1000 left 0");
    // All are equal, so the older ones get the odd devices.
    both(5000, &[asks(9000); 3], "2000 2000 1000 left 0");
}

#[test]
fn what_one_does_not_want_is_divided_again() {
    // Parts of 9 are 3 each; the first claims 1, which leaves 2 for the others.
    both(9000, &[asks(1000), asks(9000), asks(9000)], "1000 4000 4000 left 0");
    // Once more: a quarter of 12 is 3; claims of 1 and then 3.5 are satisfied, 7.5 remain for two.
    let four = [asks(1000), asks(3500), asks(9000), asks(9000)];
    both(12_000, &four, "1000 3500 4000 3500 left 0");
}

#[test]
fn a_claim_equal_to_the_part_starts_no_further_round() {
    both(6000, &[asks(3000), asks(9000)], "3000 3000 left 0");
}

#[test]
fn a_claim_equal_to_the_part_adds_no_round() {
    // Parts are 3, 0.9 and 2.1: the second lost most to rounding. A further round would divide the
    // odd device by 0.3 and 0.7.
    let projects = [asks(3000).weight(10), asks(9000).weight(3), asks(9000).weight(7)];
    both(6000, &projects, "3000 1000 2000 left 0");
    // It gets exactly its claim, in whole devices or not.
    both(5000, &[asks(2500), asks(9000)], "2500 2500 left 0");
}

#[test]
fn by_kai_what_an_earlier_round_cut_off_is_remembered() {
    // Parts of 8 are 4, 1.6 and 2.4; the first leaves 1.5. The parts of the next round are 1 and
    // 1.5, and the second still counts its rounding loss of 0.6. With `fair` there is one round:
    // 2.2 and 3.3.
    let projects = [asks(2500).weight(5), asks(9000).weight(2), asks(9000).weight(3)];
    apart(8000, &projects, "2500 2500 3000 left 0", "2500 2000 3500 left 0");
}

#[test]
fn odd_devices_go_by_priority_first() {
    // Parts of 5 by three are 1.67 each, which leaves two devices; parts of these are 1.8 and 0.2.
    let high = asks(9000).priority(5);
    let projects = [high, high, high, asks(9000).weight(9), asks(9000)];
    apart(5000, &projects, "2000 1000 1000 1000 0 left 0", "2000 2000 1000 0 0 left 0");
}

#[test]
fn without_weight_nothing_is_claimed_beyond_the_guarantee() {
    let projects = [asks(9000).guaranteed(2).weight(0), asks(1000)];
    both(8000, &projects, "2000 1000 left 5000");
}

#[test]
fn a_higher_priority_takes_all_it_can_of_what_is_left_over() {
    let projects = [asks(9000).guaranteed(1), asks(3000).priority(5), asks(9000).priority(-5)];
    both(6000, &projects, "3000 3000 0 left 0");
}

#[test]
fn an_odd_device_of_a_high_priority_reaches_a_low_one_by_kai_only() {
    // Two parts of 2.5: `kai` offers the odd device to all lower priorities before it comes back.
    let projects = [asks(9000).priority(5), asks(9000).priority(5), asks(9000)];
    apart(5000, &projects, "2000 2000 1000 left 0", "3000 2000 0 left 0");
}

#[test]
fn no_limit_is_not_a_limit_of_nothing() {
    both(4000, &[asks(9000).limit(0), asks(9000)], "0 4000 left 0");
    both(4000, &[asks(9000).guaranteed(3).limit(1), asks(1000)], "1000 1000 left 2000");
}

#[test]
fn an_unlimited_guarantee_satisfies_the_whole_claim() {
    both(4000, &[asks(3000).unlimited(), asks(9000)], "3000 1000 left 0");
    // With both rules the other keeps its guarantee as share, although the sum exceeds the total.
    both(4000, &[asks(9000).unlimited(), asks(9000).guaranteed(2)], "4000 2000 left 0");
}

#[test]
fn more_guarantees_than_there_is() {
    // With `kai` only nominally; with `fair` in proportion to the guarantees.
    let projects = [asks(9000).guaranteed(6), asks(9000).guaranteed(2)];
    apart(4000, &projects, "6000 2000 left 0", "3000 1000 left 0");
    // Only claims count: the second does not use its whole guarantee.
    let projects = [asks(9000).guaranteed(6), asks(1000).guaranteed(6), asks(9000)];
    both(8000, &projects, "7000 1000 0 left 0");
    let projects = [asks(9000).guaranteed(6), asks(1000).guaranteed(3), asks(9000).guaranteed(3)];
    apart(7000, &projects, "6000 1000 3000 left 0", "4000 1000 2000 left 0");
}

#[test]
fn no_project_has_a_share_of_nothing() {
    both(0, &[asks(9000), asks(0)], "0 0 left 0");
    both(3000, &[asks(0).guaranteed(2)], "0 left 3000");
    both(3000, &[], "left 3000");
}

#[test]
fn what_was_not_used_by_anybody_does_not_count() {
    // Without usage, feedback makes no difference.
    let projects = [asks(9000), asks(9000).weight(3)];
    for k in [0, 1000, 2500] {
        for rules in [Rules::Kai, Rules::Fair] {
            assert_eq!(shares(rules, 8000, k, &projects), "2000 6000 left 0", "{rules:?} k {k}");
        }
    }
}

#[test]
fn more_usage_means_a_smaller_share() {
    // n = 1/2 each. Used 0.25 with k = 1: 0.5 + 0.25 = 0.75 against 1: 3 to 4 of 7.
    let projects = [asks(9000).used(25), asks(9000)];
    for rules in [Rules::Kai, Rules::Fair] {
        assert_eq!(shares(rules, 7000, 1000, &projects), "3000 4000 left 0", "{rules:?}");
        assert_eq!(shares(rules, 8000, 0, &projects), "4000 4000 left 0", "{rules:?}");
    }
    // Used the whole cluster: 0.5 - 0.5 = 0, and the other gets everything.
    let projects = [asks(9000).used(100), asks(9000)];
    for rules in [Rules::Kai, Rules::Fair] {
        assert_eq!(shares(rules, 6000, 1000, &projects), "0 6000 left 0", "{rules:?}");
    }
}

#[test]
fn by_fair_usage_does_not_deny_devices_without_another_claim() {
    // With `kai` the second round weighs only the first: n = 1, 1 + (1 - 1) = 1.
    let projects = [asks(9000).used(100), asks(1000)];
    assert_eq!(shares(Rules::Kai, 6000, 1000, &projects), "5000 1000 left 0");
    assert_eq!(shares(Rules::Fair, 6000, 1000, &projects), "5000 1000 left 0");
    // Both used twice the cluster: no project has a part, and `kai` leaves everything.
    let projects = [asks(9000).used(200), asks(9000).used(200)];
    assert_eq!(shares(Rules::Kai, 6000, 1000, &projects), "0 0 left 6000");
    assert_eq!(shares(Rules::Fair, 6000, 1000, &projects), "3000 3000 left 0");
}

#[test]
fn an_odd_device_is_more_than_was_asked_for_by_kai_only() {
    // Parts of 1 by three are 1/3 each; all claim half a device.
    let halves = [asks(500); 3];
    apart(1000, &halves, "1000 0 0 left 0", "500 500 0 left 0");
}

#[test]
fn by_fair_shares_are_cut_to_what_is_of_use() {
    // Two devices for four projects with half devices: with `kai` two of them get nothing.
    let halves = [asks(4000).step(500); 4];
    apart(2000, &halves, "1000 1000 0 0 left 0", "500 500 500 500 left 0");
    // One claims whole devices: parts are 1 each.
    let mixed = [asks(4000), asks(4000).step(250), asks(4000).step(250)];
    both(3000, &mixed, "1000 1000 1000 left 0");
    // Parts of 2.5: whole devices for the first, the rest in steps for the other.
    let mixed = [asks(9000), asks(9000).step(500)];
    apart(5000, &mixed, "3000 2000 left 0", "2000 3000 left 0");
}

#[test]
fn a_large_group_is_divided_in_one_go_and_alike() {
    // Claims grow, so each pass satisfies one more project: after enough passes sorting takes over.
    let many: Vec<Asks> = (1..=40).map(|ix| asks(1000 * ix * ix)).collect();
    let total: u64 = many.iter().map(|it| it.milli).sum::<u64>() - 50_000;
    let line = shares(Rules::Fair, total, 0, &many);
    let shares: Vec<u64> = line.split(' ').take(40).map(|share| share.parse().unwrap()).collect();
    assert_eq!(shares[..39], many[..39].iter().map(|it| it.milli).collect::<Vec<_>>());
    assert_eq!(shares[39], 1_550_000, "only the largest is cut");
}

#[test]
fn many_passes_come_to_the_same_as_one_sorting() {
    // Each claims slightly more than its part before the last one was satisfied, so every pass
    // satisfies one more; three claim much more.
    let (mut rest, mut n_left) = (12_000_000_000_000_u64, 12_u64);
    let mut wants = Vec::new();
    let mut part_before = rest / n_left - 1_000_000_000_000;
    while n_left > 3 {
        let part = rest / n_left;
        let want = (part_before + part) / 2 + 1;
        wants.push(want);
        (rest, n_left, part_before) = (rest - want, n_left - 1, part);
    }
    let mut many: Vec<Asks> = wants.iter().map(|want| asks(*want).step(1)).collect();
    many.extend([asks(1 << 50).step(1); 3]);
    let line = shares(Rules::Fair, 12_000_000_000_000, 0, &many);
    let given: Vec<u64> = line.split(' ').take(12).map(|it| it.parse().unwrap()).collect();
    assert_eq!(given[..9], wants);
    assert!(given[9..].iter().all(|it| it.abs_diff(rest / 3) <= 1), "{given:?} {rest}");
    assert_eq!(given.iter().sum::<u64>(), 12_000_000_000_000);
}

#[test]
fn what_is_of_no_use_to_whole_devices_is_divided_by_the_others() {
    // Parts of 5.4 are 1.5, 1.5, 1.2 and 1.2; rounding leaves 1.4, and the quarters lose less of a
    // step than the whole devices.
    let whole = asks(9000).weight(15);
    let quarter = asks(9000).weight(12).step(250);
    let line = shares(Rules::Fair, 5400, 0, &[whole, whole, quarter, quarter]);
    assert_eq!(line, "1150 1000 1750 1500 left 0");
}

/// A tree for [`Division`]: the parent, the quota and the claim of each project.
struct Grown {
    tree: Tree,
    quotas: Vec<Quota>,
}

fn quota(guaranteed: Option<u64>, weight: u32) -> Quota {
    Quota {
        guaranteed: guaranteed.map(|gpus| Amount::of(gpus * 1000).unwrap()),
        limit: Amount::UNLIMITED,
        weight: Weight::from_thousandths(weight * 1000).unwrap(),
    }
}

fn grown(projects: &[(Option<usize>, Quota)]) -> Grown {
    let members: Vec<Member<usize>> = projects
        .iter()
        .enumerate()
        .map(|(id, (parent, _))| Member { parent: *parent, priority: 0, created: 0, id })
        .collect();
    let quotas = projects.iter().map(|(_, quota)| *quota).collect();
    Grown { tree: Tree::new(&members).unwrap(), quotas }
}

impl Grown {
    fn divide(&self, rules: Rules, total: u64, asked: &[(usize, u64)]) -> Vec<Claimant> {
        claimants((rules, Feedback::NONE), &self.tree, &self.quotas, total, (asked, &[]))
    }

    fn shares(&self, divided: &[Claimant]) -> Vec<u64> {
        (0..self.tree.len()).map(|ix| divided[self.tree.row(ix).ix()].share).collect()
    }

    fn safe(&self, divided: &[Claimant]) -> Vec<Option<u64>> {
        (0..self.tree.len()).map(|ix| divided[self.tree.row(ix).ix()].safe.finite()).collect()
    }
}

#[test]
fn a_department_divides_its_share_among_its_children() {
    let it = grown(&[
        (None, quota(Some(4), 1)),
        (None, quota(Some(4), 1)),
        (Some(0), quota(Some(1), 1)),
        (Some(0), quota(Some(3), 1)),
        (Some(1), quota(Some(4), 1)),
    ]);
    for rules in [Rules::Kai, Rules::Fair] {
        let asked = [(2, 9000), (3, 1000), (4, 2000)];
        let shares = it.shares(&it.divide(rules, 8000, &asked));
        assert_eq!(shares, [6000, 2000, 5000, 1000, 2000], "{rules:?}");
    }
}

#[test]
fn by_fair_a_department_claims_no_more_than_its_children_can() {
    // The only child of the first has a limit of 1: with `kai` its department still claims 4.
    let mut it = grown(&[
        (None, quota(Some(0), 1)),
        (None, quota(Some(0), 1)),
        (Some(0), quota(Some(0), 1)),
        (Some(1), quota(Some(0), 1)),
    ]);
    it.quotas[2].limit = Amount::of(1000).unwrap();
    let asked = [(2, 9000), (3, 9000)];
    assert_eq!(it.shares(&it.divide(Rules::Kai, 8000, &asked)), [4000, 4000, 1000, 4000]);
    assert_eq!(it.shares(&it.divide(Rules::Fair, 8000, &asked)), [1000, 7000, 1000, 7000]);
    // A child without weight claims only its guarantee.
    it.quotas[2] = quota(Some(2), 0);
    assert_eq!(it.shares(&it.divide(Rules::Kai, 8000, &asked)), [4000, 4000, 2000, 4000]);
    assert_eq!(it.shares(&it.divide(Rules::Fair, 8000, &asked)), [2000, 6000, 2000, 6000]);
}

#[test]
fn a_department_without_a_guarantee_has_that_of_its_children() {
    let it = grown(&[
        (None, quota(None, 1)),
        (Some(0), quota(Some(2), 1)),
        (Some(0), quota(Some(3), 1)),
        (None, quota(None, 1)),
    ]);
    let division = it.divide(Rules::Fair, 8000, &[]);
    assert_eq!(it.safe(&division), [Some(5000), Some(2000), Some(3000), Some(0)]);
    // An explicit guarantee of nothing is nothing, so those of its children can't be kept.
    let it = grown(&[(None, quota(Some(0), 1)), (Some(0), quota(Some(2), 1))]);
    assert_eq!(it.safe(&it.divide(Rules::Fair, 8000, &[])), [Some(0), Some(0)]);
    assert_eq!(it.safe(&it.divide(Rules::Kai, 8000, &[])), [Some(0), Some(2000)]);
}

#[test]
fn by_fair_the_kept_guarantee_does_not_depend_on_claims() {
    let it = grown(&[
        (None, quota(Some(6), 1)),
        (None, quota(Some(2), 1)),
        (Some(0), quota(Some(4), 1)),
        (Some(0), quota(Some(4), 1)),
    ]);
    for asked in [&[][..], &[(2, 9000)], &[(1, 9000), (2, 1000), (3, 9000)]] {
        let division = it.divide(Rules::Fair, 4000, asked);
        // 4 by 6:2, then 3 by 4:4, rounded down to thousandths.
        assert_eq!(it.safe(&division), [Some(3000), Some(1000), Some(1500), Some(1500)]);
    }
    let division = it.divide(Rules::Kai, 4000, &[]);
    assert_eq!(it.safe(&division), [Some(6000), Some(2000), Some(4000), Some(4000)]);
}

#[test]
fn by_fair_an_unlimited_guarantee_gets_the_rest_of_its_department() {
    let everything = Quota { guaranteed: Some(Amount::UNLIMITED), ..quota(None, 1) };
    let it = grown(&[
        (None, quota(Some(6), 1)),
        (Some(0), everything),
        (Some(0), everything),
        (Some(0), quota(Some(1), 1)),
        (None, everything),
        (Some(4), everything),
    ]);
    let safe = it.safe(&it.divide(Rules::Fair, 8000, &[]));
    assert_eq!(safe, [Some(6000), Some(2500), Some(2500), Some(1000), None, None]);
}

#[test]
fn by_fair_whole_steps_of_a_guarantee_are_kept_below_a_department_that_was_cut() {
    // 12 of 1200: 2.9 for the first, 0.91 for ten more. The fractions of the others are larger than
    // its own, so it gets 2; its children would get 1.38 and 0.62 of that.
    let mut projects = vec![(None, quota(Some(290), 0))];
    projects.extend([(None, quota(Some(91), 0)); 10]);
    projects.extend([(Some(0), quota(Some(200), 0)), (Some(0), quota(Some(90), 0))]);
    let it = grown(&projects);
    let asked: Vec<(usize, u64)> = (1..13).map(|ix| (ix, 900_000)).collect();
    let division = it.divide(Rules::Fair, 12_000, &asked);
    let mut expected = vec![2000];
    expected.extend([1000; 10]);
    expected.extend([2000, 0]);
    assert_eq!(it.shares(&division), expected);
}

#[test]
fn by_fair_a_departments_steps_are_its_childrens() {
    let top = (None, quota(Some(0), 1));
    let below = |parent| (Some(parent), quota(Some(0), 1));
    let it = grown(&[top, top, below(0), below(1), below(2), below(3)]);
    let method = Method { step: 1000, feedback: Feedback::NONE };
    let mut division = Division::new(method, &it.tree, &it.quotas, 1000);
    let mut buffers = Buffers::default();
    let mut ask = |division: &mut Division, leaf, smallest| {
        division.ask(&it.tree, it.tree.row(leaf), Ask { requested: 9000, smallest });
        division.divide(&it.tree, &mut buffers);
        it.shares(division.claimants())
    };
    ask(&mut division, 4, Some(500));
    assert_eq!(ask(&mut division, 5, Some(500)), [500; 6]);
    ask(&mut division, 4, None);
    assert_eq!(ask(&mut division, 5, None), [1000, 0, 1000, 0, 1000, 0]);
}

#[test]
fn what_a_department_used_divides_its_siblings_anew() {
    let top = (None, quota(Some(0), 1));
    let it = grown(&[top, top, (Some(0), quota(Some(0), 1)), (Some(1), quota(Some(0), 1))]);
    for rules in [Rules::Kai, Rules::Fair] {
        let asked = [(2, 9000), (3, 9000)];
        let divide = |used: &[(usize, u32)]| {
            claimants((rules, Feedback::ONE), &it.tree, &it.quotas, 7000, (&asked, used))
        };
        assert_eq!(it.shares(&divide(&[])), [4000, 3000, 4000, 3000], "{rules:?}");
        let divided = divide(&[(0, 250_000)]);
        assert_eq!(it.shares(&divided), [3000, 4000, 3000, 4000], "{rules:?}");
    }
}
