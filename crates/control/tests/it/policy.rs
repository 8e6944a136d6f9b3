//! Changes of the policy.

use gpool_model::{Command, Millis, Reply};

use crate::harness::*;

#[test]
fn a_preset_keeps_the_prices_and_earlier_prices_keep_their_time() {
    let mut harness = Harness::new(1);
    let mut set = |preset: Option<&str>, prices: Option<&str>| {
        let preset = preset.map(str::to_owned);
        let set = prices.map(|text| ("prices".to_owned(), text.to_owned()));
        let set = set.into_iter().collect();
        let command = Command::SetPolicy { preset, set, dry_run: false };
        harness.now = harness.now.after(Millis::from_hours(1));
        let Reply::Policy(policy) = harness.command(&root(), command).expect("it is valid") else {
            panic!("it answers with the policy");
        };
        (policy.prices.to_string(), policy.past_prices.len(), harness.now)
    };
    set(None, Some("currency=EUR,gpu=1"));
    let (prices, n_past, _) = set(Some("fifo"), None);
    assert_eq!((&*prices, n_past), ("currency=EUR,gpu=1", 0));
    let (.., changed_at) = set(None, Some("currency=EUR,gpu=2"));
    let (prices, n_past, _) = set(Some("fair"), None);
    assert_eq!((&*prices, n_past), ("currency=EUR,gpu=2", 1));
    let past = &harness.control.world().policy().past_prices[0];
    assert_eq!(
        (past.until, past.prices.to_string()),
        (changed_at, "currency=EUR,gpu=1".to_owned())
    );
}
