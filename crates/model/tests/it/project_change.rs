//! Tests of `project_change`.

use gpool_model::id::ProjectName;
use gpool_model::project_change::{ProjectPatch, QuotaPatch};
use gpool_model::quota::Amount;
use gpool_model::resource::ResourceKind;
use gpool_model::unit::{Millis, Timestamp};

#[test]
fn absent_fields_stay_and_empty_ones_are_removed() {
    let name = ProjectName::new("red");
    let gpus = QuotaPatch { guaranteed: Some(Amount::of(4000)), ..QuotaPatch::default() };
    let patch = ProjectPatch {
        quotas: vec![(ResourceKind::Gpu, gpus)],
        longest_time: Some(Some(Millis::from_hours(1))),
        ..ProjectPatch::default()
    };
    let red = patch.of_blank(name, Timestamp::new(7));
    assert_eq!(red.quota(&ResourceKind::Gpu).guaranteed, Amount::of(4000));
    let gone = QuotaPatch { guaranteed: Some(None), ..QuotaPatch::default() };
    let patch = ProjectPatch { quotas: vec![(ResourceKind::Gpu, gone)], ..ProjectPatch::default() };
    let text = serde_json::to_string(&patch).expect("it can be written");
    assert_eq!(serde_json::from_str::<ProjectPatch>(&text).expect("it can be read"), patch);
    let red = patch.applied_to(&red);
    assert!(red.quotas.iter().next().is_none(), "a quota without values is removed");
    assert_eq!(red.jobs.longest_time, Some(Millis::from_hours(1)));
}
