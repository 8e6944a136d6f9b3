//! Updates, and the replicas to start and to drain.

use gpool_gateway::plan::{PlannedReplica, Shares, Stage, divide, pause_ms, steps};
use proptest::prelude::*;

fn replica(index: u64, stage: Stage, is_new: bool) -> PlannedReplica {
    PlannedReplica { index, stage, is_new, n_in_flight: 0 }
}

#[test]
fn replicas_that_serve_nothing_leave_first() {
    let all = [
        replica(1, Stage::Ready, true),
        replica(2, Stage::Starting, true),
        PlannedReplica { n_in_flight: 3, ..replica(3, Stage::Ready, true) },
        replica(4, Stage::Pending, true),
    ];
    assert_eq!(steps(divide(2, None, &all), &all).drain, [4, 2]);
    assert_eq!(steps(divide(1, None, &all), &all).drain, [4, 2, 1]);
}

#[test]
fn an_update_replaces_one_replica_after_the_other() {
    let mut all: Vec<PlannedReplica> =
        (1..=3).map(|index| replica(index, Stage::Ready, false)).collect();
    let mut n_ready_least = 3;
    let mut n_living_most = 3;
    let mut index = 4;
    for _ in 0..20 {
        let next = steps(divide(3, None, &all), &all);
        assert_eq!(next.start_old, 0);
        all.retain(|it| !next.drain.contains(&it.index));
        for it in &mut all {
            it.stage = Stage::Ready;
        }
        for _ in 0..next.start_new {
            all.push(replica(index, Stage::Starting, true));
            index += 1;
        }
        let n_ready = all.iter().filter(|it| it.stage == Stage::Ready).count();
        n_ready_least = n_ready_least.min(n_ready);
        n_living_most = n_living_most.max(all.len());
    }
    assert!(all.len() == 3 && all.iter().all(|it| it.is_new), "{all:?}");
    assert_eq!((n_ready_least, n_living_most), (3, 4));
}

#[test]
fn a_revision_that_is_never_ready_changes_nothing() {
    let old = (1..=3).map(|index| replica(index, Stage::Ready, false));
    let all: Vec<_> = old.chain([replica(4, Stage::Starting, true)]).collect();
    let next = steps(divide(3, None, &all), &all);
    assert_eq!((next.start_new, next.start_old, next.drain), (0, 0, vec![]));
}

#[test]
fn a_canary_has_its_part_of_the_replicas_until_it_is_promoted() {
    let old: Vec<_> = (1..=4).map(|index| replica(index, Stage::Ready, false)).collect();
    assert_eq!(divide(4, Some(10), &old), Shares { n_new: 1, n_old: 4 });
    let all = [old, vec![replica(5, Stage::Ready, true)]].concat();
    assert_eq!(divide(4, Some(10), &all), Shares { n_new: 1, n_old: 3 });
    assert_eq!(divide(1, Some(10), &all), Shares { n_new: 1, n_old: 1 });
    assert_eq!(divide(0, Some(10), &all), Shares::default());
}

#[test]
fn failed_starts_are_repeated_more_and_more_slowly() {
    let pauses: Vec<u64> = (0..6).map(pause_ms).collect();
    assert_eq!(pauses, [0, 0, 1000, 2000, 4000, 8000]);
    assert_eq!(pause_ms(u32::MAX), 300_000);
}

fn any_replica() -> impl Strategy<Value = PlannedReplica> {
    let stages = [
        Stage::Pending,
        Stage::Starting,
        Stage::Unready,
        Stage::Ready,
        Stage::Draining,
        Stage::Stopping,
    ];
    (0_u64..1000, prop::sample::select(stages.to_vec()), any::<bool>(), 0_u32..5).prop_map(
        |(index, stage, is_new, n_in_flight)| PlannedReplica { index, stage, is_new, n_in_flight },
    )
}

proptest! {
    /// The steps lead to the wanted numbers and never drain a replica that is leaving.
    #[test]
    fn the_steps_lead_to_the_numbers(
        n in 0_u32..6,
        canary in prop::option::of(1_u32..100),
        mut all in prop::collection::vec(any_replica(), 0..10),
    ) {
        for (index, it) in (0..).zip(&mut all) {
            it.index = index;
        }
        let shares = divide(n, canary, &all);
        let next = steps(shares, &all);
        let kept = |is_new| {
            let of = |it: &&PlannedReplica| {
                it.is_new == is_new && it.stage.is_living() && !next.drain.contains(&it.index)
            };
            u32::try_from(all.iter().filter(of).count()).unwrap()
        };
        prop_assert_eq!(kept(true) + next.start_new, shares.n_new);
        prop_assert_eq!(kept(false) + next.start_old, shares.n_old);
        prop_assert!(n == 0 || shares.n_new + shares.n_old >= n);
        let is_leaving = |index: &u64| {
            all.iter().any(|it| it.index == *index && !it.stage.is_living())
        };
        prop_assert!(!next.drain.iter().any(is_leaving));
    }
}
