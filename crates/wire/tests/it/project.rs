//! Requests to create and change projects: reads and checks amounts as users write them.

use gpool_model::quota::Amount;
use gpool_model::{Millis, Timestamp};
use serde_json::json;

use gpool_model::{ProjectName, Refusal, ResourceKind};
use gpool_wire::project_parts::Agreed;
use gpool_wire::project_view::member_words;
use gpool_wire::{Project, ProjectFacts};
use gpool_wire::{ProjectSettings, Quantity};

fn why(settings: serde_json::Value) -> String {
    let settings = serde_json::from_value::<ProjectSettings>(settings);
    match settings.map(|settings| settings.patch()) {
        Ok(Err(Refusal::Invalid { field, why })) => format!("{field}: {why}"),
        Ok(other) => panic!("it is taken: {other:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn amounts_are_read_as_users_write_them_and_nothing_is_no_bound() {
    let settings = serde_json::json!({
        "gpus": "0.5", "limit": "none", "weight": 0, "mem": "20G", "mem_limit": 1024,
        "cpus": "unlimited", "time_max": "2h", "min_runtime": 60, "parent": "none",
        "members": ["ana", "@lab"], "user_pending": "5", "jobs_limit": 3,
        "min_runtime_own": "5m",
    });
    let settings: ProjectSettings = serde_json::from_value(settings).unwrap();
    let patch = settings.patch().unwrap();
    let project = patch.of_blank(ProjectName::new("red"), gpool_model::Timestamp::ZERO);
    let gpu = project.quota(&ResourceKind::Gpu);
    assert_eq!(gpu.guaranteed, Amount::of(500));
    assert!(gpu.limit.is_unlimited());
    assert_eq!(gpu.weight, gpool_model::Weight::NONE);
    let mem = project.quota(&ResourceKind::Memory);
    assert_eq!((mem.guaranteed, mem.limit), (Amount::of(20 << 30), Amount::saturating_of(1024)));
    assert_eq!(project.min_runtime.reclaim, Some(Millis::from_secs(60)));
    assert_eq!(project.min_runtime.preempt, Some(Millis::from_mins(5)));
    assert_eq!(project.quota(&ResourceKind::Tasks).limit, Amount::saturating_of(3));
    assert_eq!(member_words(project.members.as_ref().unwrap()), ["ana", "@lab"]);
    let shown = Project::new(&project, &ProjectFacts::default());
    assert_eq!(shown.gpus, Some(Quantity::Decimal(0.5)));
    assert_eq!((shown.limit, shown.created_at), (None, None));
    assert_eq!((shown.jobs_limit, shown.min_runtime_own_s), (Some(3), Some(300.0)));
    let zero: ProjectSettings = serde_json::from_str(r#"{"limit": 0}"#).unwrap();
    let patch = zero.patch().unwrap();
    assert_eq!(patch.quotas[0].1.limit, Some(Amount::NOTHING), "0 is nothing");
    let none = serde_json::json!({ "cpus_limit": "0", "mem_limit": "0" });
    let none: ProjectSettings = serde_json::from_value(none).unwrap();
    let limits = none.patch().unwrap().quotas.into_iter().map(|(_, patch)| patch.limit);
    assert!(limits.eq([Some(Amount::NOTHING); 2]), "0 of memory needs no unit");
}

#[test]
fn what_can_not_be_meant_is_refused_with_its_place_and_what_can() {
    for (settings, words) in [
        (serde_json::json!({"gpus": "NaN"}), "gpus: \"NaN\" is not a number of GPUs"),
        (serde_json::json!({"gpus": "4x"}), "(position 2: 'x')"),
        (serde_json::json!({"gpus": -1}), "a number of at least 0"),
        (serde_json::json!({"limit": "-1"}), "limit: \"-1\" is not a number of GPUs"),
        (serde_json::json!({"gpus": "0.1234"}), "or unlimited, or none"),
        (serde_json::json!({"gpus": "1e3"}), "(position 2: 'e')"),
        (serde_json::json!({"gpus": "99999999999999"}), "out of range"),
        (serde_json::json!({"weight": "-2"}), "weight: \"-2\" is not a weight"),
        (serde_json::json!({"weight": 2_000_000}), "a weight of at most a million"),
        (serde_json::json!({"weight": "inf"}), "weight: \"inf\""),
        (serde_json::json!({"mem": "20"}), "mem: \"20\" is not an amount of memory"),
        (serde_json::json!({"tpus": 4}), "unknown field `tpus`, expected one of"),
        (serde_json::json!({"members": ["a b"]}), "members: "),
        (serde_json::json!({"admins": ["@"]}), "admins: \"@\" is not a user name"),
        (serde_json::json!({"parent": "a b"}), "parent: "),
        (serde_json::json!({"priority": 1001}), "priority: "),
        (serde_json::json!({"user_pending": "x"}), "user_pending: "),
    ] {
        let said = why(settings);
        assert!(said.contains(words), "{said:?} says {words:?}");
    }
}

fn settings(value: serde_json::Value) -> ProjectSettings {
    serde_json::from_value(value).expect("the fields are there")
}

#[test]
fn parts_are_read_shown_and_taken_away() {
    let patch = settings(json!({
        "gpus_of": {"H100": 4, "a100-80g": "0.5"},
        "limit_of": {"h100": 6},
        "gpus_in": {"big": "unlimited"},
        "limit_in": {"small": 0},
    }));
    let patch = patch.patch().expect("it is valid");
    let project = patch.of_blank(ProjectName::new("red"), Timestamp::ZERO);
    let h100 = project.quota(&ResourceKind::GpuModel("h100".to_owned()));
    assert_eq!((h100.guaranteed, h100.limit), (Amount::of(4000), Amount::saturating_of(6000)));
    let shown = Agreed::with(&project).settings().map(|(_, words)| words);
    assert_eq!(shown, ["a100-80g=0.5,h100=4", "h100=6", "big=unlimited", "small=0"]);
    let less = settings(json!({"gpus_of": {"h100": "none", "a100-80g": "none"},
        "limit_of": {"h100": "none"}, "gpus_in": {"big": "none"}}));
    let less = less.patch().expect("it is valid").applied_to(&project);
    let kinds: Vec<&ResourceKind> = less.quotas.iter().map(|(kind, _)| kind).collect();
    let small = gpool_model::PoolName::new("small");
    assert_eq!(kinds, [&ResourceKind::GpuPool(small)], "what is not said stays");
}

#[test]
fn what_is_guaranteed_by_model_is_guaranteed_in_all() {
    let all = |value| {
        let patch = settings(value).patch().expect("it is valid");
        let project = patch.of_blank(ProjectName::new("red"), Timestamp::ZERO);
        project.quota(&ResourceKind::Gpu).guaranteed
    };
    let by_model = json!({"h100": 4, "a100": 2});
    assert_eq!(all(json!({"gpus_of": by_model})), Amount::of(6000));
    assert_eq!(all(json!({"gpus_of": by_model, "gpus_in": {"big": 8}})), Amount::of(8000));
    assert_eq!(all(json!({"gpus_of": by_model, "gpus": 3})), Amount::of(3000));
    assert_eq!(all(json!({"limit_of": {"h100": 1}})), None);
}

#[test]
fn what_can_not_be_meant_is_refused_with_its_field() {
    for (value, said) in [
        (json!({"gpus_of": {"h100:2": 4}}), "gpus_of: \"h100:2\" is not a GPU model"),
        (json!({"gpus_of": {"4": 4}}), "gpus_of: \"4\" is not a GPU model"),
        (json!({"gpus_of": {"": 4}}), "gpus_of: \"\" is not a GPU model"),
        (json!({"limit_of": {"h100": "x"}}), "limit_of: \"x\" is not a number of GPUs"),
        (json!({"limit_of": {"h100": -1}}), "of at least 0"),
        (json!({"gpus_in": {"a b": 1}}), "gpus_in: a pool name"),
        (json!({"gpus_of": {"h100": 1, "H100": 2}}), "gpus_of: \"h100\" is given twice"),
        (json!({"gpus_of": {"a100-80g": 1, "a100-80GB": 2}}), "is given twice"),
    ] {
        let said_is = match serde_json::from_value::<ProjectSettings>(value) {
            Err(error) => error.to_string(),
            Ok(settings) => match settings.patch() {
                Err(Refusal::Invalid { field, why }) => format!("{field}: {why}"),
                other => panic!("it is taken: {other:?}"),
            },
        };
        assert!(said_is.contains(said), "{said_is:?} says {said:?}");
    }
}
