//! Properties of every forecast.

use std::collections::BTreeMap;

use gpool_control::forecast::{self, Calibrator, ForecastInput, Length, LengthSource};
use gpool_model::{JobId, Millis};
use gpool_scenario::{Case, Cluster, Situation, Step, cases, config};
use proptest::prelude::*;

use crate::play;

fn after(case: &Case) -> Cluster {
    let mut cluster = Cluster::of(&case.start);
    for step in &case.steps {
        cluster.apply(step);
        cluster.cycle();
    }
    cluster
}

/// Makes all jobs non-preemptible: the ends of evicted jobs are not known exactly.
fn never_taken_back(mut case: Case) -> Case {
    for step in &mut case.steps {
        if let Step::Submit(seed) = step {
            seed.is_preemptible = false;
        }
    }
    case
}

/// Returns different lengths for different jobs, the same for the same job.
fn length(id: JobId) -> Millis {
    Millis::from_mins(1 + u32::try_from(id.number.0 * 37 % 101).unwrap())
}

proptest! {
    #![proptest_config(config(300))]

    /// The times are in order, none is in the past, and the same excerpt gives the same forecast.
    #[test]
    fn moments_are_in_order_and_never_past(case in cases(40)) {
        let cluster = after(&case);
        let part = ForecastInput::of(&cluster.snapshot(), 1000, None);
        let made = forecast::forecast(&part, 1000, &Calibrator::default());
        prop_assert!(!made.is_broken);
        for (id, eta) in &made.etas {
            let moments: Vec<_> = [eta.p10, eta.p50, eta.p90].into_iter().flatten().collect();
            prop_assert!(moments.is_sorted(), "{id}: {eta:?}");
            prop_assert!(moments.iter().all(|at| *at >= part.now), "{id}: {eta:?}");
            prop_assert!(eta.p50.is_some() || eta.p90.is_none(), "{id}: {eta:?}");
        }
        let again = ForecastInput::of(&cluster.snapshot(), 1000, None);
        prop_assert_eq!(&forecast::forecast(&again, 1000, &Calibrator::default()), &made);
    }

    /// With exact ends, every job starts at its predicted time, to the millisecond; a job that is
    /// predicted never to start does not.
    #[test]
    fn exact_ends_make_exact_starts(case in cases(40).prop_map(never_taken_back)) {
        let cluster = after(&case);
        let mut part = ForecastInput::of(&cluster.snapshot(), 1000, None);
        let exact: BTreeMap<JobId, Millis> =
            part.lengths.keys().map(|id| (*id, length(*id))).collect();
        part.lengths =
            exact.iter().map(|(id, it)| (*id, Length::exactly(*it, LengthSource::Limit))).collect();
        let made = forecast::forecast(&part, 1000, &Calibrator::default());
        let situation = Situation::of(&cluster.snapshot());
        let truth = play::starts(&situation, &exact, part.now.after(forecast::HORIZON));
        let told: BTreeMap<JobId, _> =
            made.etas.iter().filter_map(|(id, eta)| Some((*id, eta.p50?))).collect();
        prop_assert_eq!(&told, &truth, "in\n{}", situation);
        for (id, eta) in &made.etas {
            prop_assert_eq!((eta.p10, eta.p90), (eta.p50, eta.p50), "{}", id);
        }
    }
}
