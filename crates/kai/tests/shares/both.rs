//! KAI's rules and those of `fair` behind one interface.

use gpool_kai::shares::{self as kai, Multiplier};
use gpool_model::Quota;
use gpool_sched::fairshare::{
    self, Ask, Buffers, Claimant, Denied, Division, Feedback, Ledger, Method, Reclaimer, Tree,
    Victim, fair,
};

/// The rules that decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    Kai,
    Fair,
}

pub(crate) const BOTH: [Rules; 2] = [Rules::Kai, Rules::Fair];

/// Divides among siblings; returns the rest.
pub(crate) fn divide(rules: Rules, level: &mut [Claimant], total: u64, feedback: Feedback) -> u64 {
    match rules {
        Rules::Kai => kai::divide(level, total, 1000, feedback, &mut kai::Buffers::default()),
        Rules::Fair => fair::divide(level, total, feedback, &mut Buffers::default()),
    }
}

/// Requests in thousandths, and usage in millionths, by member.
type Inputs<'a> = (&'a [(usize, u64)], &'a [(usize, u32)]);

/// Divides over a tree.
pub(crate) fn claimants(
    (rules, feedback): (Rules, Feedback),
    tree: &Tree,
    quotas: &[Quota],
    total: u64,
    (asked, used): Inputs<'_>,
) -> Vec<Claimant> {
    match rules {
        Rules::Kai => {
            let mut division = kai::Division::new(1000, feedback, tree, quotas, total);
            for (leaf, amount) in asked {
                division.request(tree, tree.row(*leaf), *amount);
            }
            used.iter().for_each(|(member, usage)| division.set_usage(tree.row(*member), *usage));
            division.divide(tree);
            division.claimants().to_vec()
        }
        Rules::Fair => {
            let mut division = Division::new(Method { step: 1000, feedback }, tree, quotas, total);
            let mut buffers = Buffers::default();
            for (leaf, requested) in asked {
                let ask = Ask { requested: *requested, smallest: None };
                division.ask(tree, tree.row(*leaf), ask);
            }
            // Usage is set later, so that it alone causes another division.
            division.divide(tree, &mut buffers);
            for (member, usage) in used {
                division.set_usage(tree, tree.row(*member), *usage);
            }
            division.divide(tree, &mut buffers);
            division.claimants().to_vec()
        }
    }
}

/// The gate of a reclaim.
pub(crate) fn gate(rules: Rules, ledger: &Ledger, reclaimer: &Reclaimer<'_>) -> Result<(), Denied> {
    match rules {
        Rules::Kai => kai::Reclaim::new(Multiplier::ONE).gate(ledger, reclaimer),
        Rules::Fair => fairshare::gate(ledger, reclaimer),
    }
}

/// The check of a reclaim.
pub(crate) fn check(
    rules: Rules,
    (tree, ledger): (&Tree, &Ledger),
    reclaimer: &Reclaimer<'_>,
    victims: &[Victim<'_>],
) -> Result<(), Denied> {
    match rules {
        Rules::Kai => kai::Reclaim::new(Multiplier::ONE).check(tree, ledger, reclaimer, victims),
        Rules::Fair => fairshare::check(tree, ledger, reclaimer, victims),
    }
}
