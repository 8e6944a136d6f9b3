//! Divides one resource kind among siblings. The base is KAI's rule; the departures, each for a
//! reason:
//!
//! 1. If the requested guarantees exceed the capacity, each project gets a part in proportion to
//!    its guarantee, and never less than the whole steps of its covered guarantee, instead of all
//!    of it on paper. Unlimited guarantees are left out: such a project never borrows that kind,
//!    and no other guarantee shrinks for it.
//! 2. The parts are computed first and cut to whole steps once, so a project's share does not
//!    depend on the number of rounds.
//! 3. A step is the smallest amount that the project can use: whole devices if its jobs request
//!    whole ones, less if they request shares, so that four projects with half devices can divide
//!    two.
//! 4. The rest of the cutting goes to the same priority before a lower one; no project gets more
//!    than it requests; and nothing is left while a project with a weight requests it.
//! 5. Past usage is weighed once, among all that request, and never keeps a project from capacity
//!    that no other project requests.

use gpool_model::{Amount, Weight};

use gpool_sched::fairshare::Claimant;
use gpool_sched::fairshare::fair::keep;

fn has(share: u64, safe_claim: u64) -> Claimant {
    let all = Amount::saturating_of(5_000);
    let weight = Weight::from_thousandths(1000).expect("one is a weight");
    Claimant {
        guaranteed: all,
        limit: Amount::UNLIMITED,
        weight,
        priority: 0,
        usage: 0,
        claim: 5_000,
        step: 1000,
        share,
        safe: all,
        safe_claim,
    }
}

#[test]
fn projects_above_their_kept_part_give_to_those_below_it() {
    let mut level = [has(4_000, 3_000), has(0, 1_500), has(2_000, 1_500), has(500, 500)];
    keep(&mut level);
    let shares = level.map(|it| it.share);
    assert_eq!(shares, [3_000, 1_500, 1_500, 500]);
}
