//! Tests of `prediction`.

use gpool_model::id::ProjectName;
use gpool_model::job::GpuUsage;
use gpool_model::prediction::{EnoughMemory, Likeness, PastRuns};
use gpool_model::unit::{Bytes, Millis, Timestamp};

fn runs(minutes: &[u32]) -> PastRuns {
    let project = ProjectName::new("default");
    let like = Likeness { uid: 1, project, stem: "train-".to_owned() };
    let mut runs = PastRuns::none(like);
    for (at, length) in (1..).zip(minutes) {
        runs.add(Millis::from_mins(*length), Timestamp::new(at));
    }
    runs
}

fn middle(minutes: &[u32]) -> Option<Millis> {
    runs(minutes).prediction().map(|prediction| prediction.p50)
}

#[test]
fn the_median_is_the_middle_run() {
    assert_eq!(middle(&[]), None);
    assert_eq!(middle(&[9, 1, 5]), Some(Millis::from_mins(5)));
    assert_eq!(middle(&[1, 2, 3, 4]), Some(Millis::from_mins(3)));
}

#[test]
fn one_short_run_does_not_predict_a_short_run() {
    assert_eq!(middle(&[0]), Some(Millis::from_mins(40)));
    assert_eq!(middle(&[0, 3]), Some(Millis::from_mins(22)));
    assert_eq!(middle(&[0, 3, 6]), Some(Millis::from_mins(3)));
    assert_eq!(middle(&[90]), Some(Millis::from_mins(90)));
}

#[test]
fn quantiles_surround_the_median() {
    let eleven: Vec<u32> = (0..=10).collect();
    let prediction = runs(&eleven).prediction().expect("there are runs");
    let minutes = |length: Millis| length.get() / 60_000;
    assert_eq!((minutes(prediction.p10), minutes(prediction.p90)), (1, 9));
    assert_eq!((minutes(prediction.p50), prediction.n_runs), (5, 11));
}

#[test]
fn only_the_last_runs_count() {
    let mut minutes = vec![1; 30];
    minutes.extend([60; PastRuns::RUNS_MAX]);
    let runs = runs(&minutes);
    assert_eq!(runs.lengths, vec![Millis::from_mins(60); PastRuns::RUNS_MAX]);
    assert_eq!(runs.last_ended_at, Timestamp::new(50));
}

/// Runs with this memory in GiB and utilization in percent, on a device with 80 GiB.
fn on_gpus(uses: &[(u32, u64)]) -> Option<EnoughMemory> {
    let mut runs = runs(&[]);
    for (gib, percent) in uses {
        runs.add_gpu(GpuUsage {
            memory_peak: Bytes::from_gib(*gib),
            memory_limit: Bytes::from_gib(80),
            busy: Millis::new(10 * percent),
            measured: Millis::new(1000),
        });
    }
    runs.enough_memory()
}

#[test]
fn runs_far_below_the_memory_of_their_device_suggest_a_share() {
    let enough = on_gpus(&[(9, 7), (11, 50), (10, 0)]).expect("all are light");
    assert_eq!((enough.n_runs, enough.used, enough.gib), (3, Bytes::from_gib(11), 14));
    assert_eq!(enough.device, Bytes::from_gib(80));
    assert_eq!(on_gpus(&[(9, 7), (11, 7)]), None, "too few runs");
    assert_eq!(on_gpus(&[(9, 7), (41, 7), (10, 7)]), None, "one used more than half of the memory");
    assert_eq!(on_gpus(&[(9, 7), (11, 51), (10, 7)]), None, "one was busy");
    let mut many = vec![(70, 7); 10];
    many.extend([(2, 7); PastRuns::RUNS_MAX]);
    assert_eq!(on_gpus(&many).map(|enough| enough.gib), Some(3), "only the last runs count");
}
