//! Tests of `policy_text`.

use gpool_model::id::PoolName;
use gpool_model::policy::{OrderKey, PlannedStarts, Policy};
use gpool_model::unit::Millis;

#[test]
fn settings_rebuild_every_preset() {
    for name in Policy::PRESETS {
        let preset = Policy::from_preset(name).expect("it is a preset");
        assert_eq!(preset.preset, name);
        let mut again = Policy { preset: name.to_owned(), ..Policy::fair() };
        for (key, value) in preset.settings() {
            again.set(key, &value).expect("settings round-trip");
        }
        assert_eq!(again, preset);
    }
}

#[test]
fn a_preset_takes_parameters() {
    let text = "valohai:escalate_after=24h,planned_starts=all,order=escalated+age";
    let policy = Policy::from_preset(text).expect("valid");
    assert_eq!(policy.escalate_after, Millis::from_hours(24));
    assert_eq!(policy.planned_starts, PlannedStarts::All);
    assert_eq!(policy.order, [OrderKey::Escalated, OrderKey::Age]);
}

#[test]
fn pools_share_the_clusters_settings_except_their_own() {
    let mut policy = Policy::fair();
    policy.set("pool.batch.order", "age").expect("valid");
    policy.set("pool.a.b", "las:min_run=1h").expect("valid");
    policy.set("lend", "no").expect("valid");
    policy.set("planned_starts", "3").expect("valid");
    let batch = policy.of_pool(Some(&PoolName::new("batch")));
    assert_eq!((&batch.order[..], batch.lend), (&[OrderKey::Age][..], false));
    // The other settings come from its preset.
    assert_eq!(batch.planned_starts, PlannedStarts::AtMost(1));
    let other = policy.of_pool(Some(&PoolName::new("a.b")));
    assert_eq!((other.min_run, other.lend), (Millis::from_hours(1), false));
    assert!(other.asks_attained());
    assert_eq!(policy.of_pool(None), &policy);
    let mut again = Policy::fair();
    for (key, value) in policy.all_settings() {
        again.set(&key, &value).expect("settings round-trip");
    }
    assert_eq!(again.all_settings(), policy.all_settings());
    policy.set("pool.batch", "none").expect("valid");
    policy.set("pool.a.b", "none").expect("valid");
    assert!(policy.pools.is_empty());
}

#[test]
fn invalid_settings_name_their_key() {
    for (key, value) in [
        ("order", "age,size"),
        ("order", "age,age"),
        ("order", ""),
        ("escalate_after", "0"),
        ("escalate_after", "soon"),
        ("escalate_after", "400d"),
        ("device_strategy", "best"),
        ("user_priority_max", "1001"),
        ("user_priority_max", "1.5"),
        ("planned_starts", "101"),
        ("planned_starts", "-1"),
        ("share_between", "friends"),
        ("quota_rules", "kai"),
        ("lend", "maybe"),
        ("reserved_only", "1"),
        ("attained_levels", ""),
        ("attained_levels", "10,1"),
        ("attained_levels", "0,1"),
        ("attained_levels", "1,2,3,4,5,6,7,8,9"),
        ("attained_levels", "99999999999999"),
        ("min_run", "0"),
        ("consolidate", "1"),
        ("share_with", "me"),
        ("idle", "free"),
        ("use_half_life", "1s"),
        ("use_weight", "11"),
        ("use_weight", "-1"),
        ("shape", "round"),
        ("pool.", "fifo"),
        ("pool.4", "fifo"),
        ("pool.batch", "kai"),
        ("pool.batch", "best"),
        ("pool.batch.order", "size"),
        ("pool.batch.lend", "no"),
        ("pool.batch.order.age", "1"),
    ] {
        let mut policy = Policy::fair();
        let error = policy.set(key, value).expect_err(value);
        assert_eq!((error.key.as_str(), &policy), (key, &Policy::fair()), "{value}");
    }
    for text in ["best", "kai", "lase", "fair:order", "fair:nothing=1", ""] {
        assert!(Policy::from_preset(text).is_err(), "{text}");
    }
}
