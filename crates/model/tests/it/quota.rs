//! Tests of `quota`.

use gpool_model::quota::{Amount, Quota, Quotas, Weight};
use gpool_model::resource::ResourceKind;

#[test]
fn zero_and_unlimited_differ() {
    assert!(Amount::NOTHING < Amount::UNLIMITED);
    assert!(!Amount::NOTHING.allows(1));
    assert!(Amount::UNLIMITED.allows(u64::MAX));
    assert_eq!(Amount::NOTHING.cut(7), 0);
    assert_eq!(Amount::UNLIMITED.cut(7), 7);
    assert_eq!(Amount::of(0), Some(Amount::NOTHING));
    assert_eq!(Amount::of(u64::MAX), None, "no number means unlimited");
    assert_eq!(Amount::saturating_of(u64::MAX).finite(), Some(Amount::MOST));
}

#[test]
fn sums_are_unlimited_only_with_an_unlimited_amount() {
    let most = Amount::saturating_of(Amount::MOST);
    assert_eq!(most.plus(most), most);
    assert_eq!(most.plus(Amount::UNLIMITED), Amount::UNLIMITED);
    assert_eq!(Amount::NOTHING.plus(Amount::saturating_of(3)).finite(), Some(3));
}

#[test]
fn quotas_round_trip_in_short_form() {
    let mut quotas = Quotas::default();
    let four = Amount::of(4000).unwrap();
    quotas.set(ResourceKind::Gpu, Quota { guaranteed: Some(four), ..Quota::default() });
    let nothing = Quota { limit: Amount::NOTHING, weight: Weight::NONE, guaranteed: None };
    quotas.set(ResourceKind::Cpu, nothing);
    quotas.set(
        ResourceKind::Memory,
        Quota { guaranteed: Some(Amount::UNLIMITED), ..Quota::default() },
    );
    let text = serde_json::to_string(&quotas).unwrap();
    assert_eq!(
        text,
        concat!(
            r#"[["gpu",{"guaranteed":4000}],["cpu",{"limit":0,"weight":0}],"#,
            r#"["memory",{"guaranteed":"unlimited"}]]"#
        )
    );
    assert_eq!(serde_json::from_str::<Quotas>(&text).unwrap(), quotas);
    assert_eq!(quotas.get(&ResourceKind::Tasks), None);
}

#[test]
fn impossible_quotas_are_refused() {
    for text in [
        r#"{"limit":-1}"#,
        r#"{"limit":1.5}"#,
        r#"{"limit":"none"}"#,
        r#"{"limit":72057594037927937}"#,
        r#"{"weight":1000000001}"#,
        r#"{"weight":-1}"#,
    ] {
        assert!(serde_json::from_str::<Quota>(text).is_err(), "{text}");
    }
}
