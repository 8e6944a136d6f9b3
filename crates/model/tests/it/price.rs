//! Prices as text, and the price that applies.

use gpool_model::{Money, Policy, Prices, Timestamp};

fn prices(text: &str) -> Prices {
    text.parse().expect("valid")
}

fn money(text: &str) -> Option<Money> {
    Some(Money::parse(text).expect("valid"))
}

#[test]
fn prices_are_written_as_they_are_read() {
    let all = "currency=EUR,gpu=1,model.4090=0.3,model.h100=2.5,pool.spare=0.5,node.lab7=0,\
               energy=0.25";
    assert_eq!(prices(all).to_string(), all);
    assert_eq!(prices("none").to_string(), "none");
    let mut policy = Policy::fair();
    policy.set("prices", " currency=EUR , gpu=0.000001 ").expect("blanks are allowed");
    assert_eq!(policy.prices.to_string(), "currency=EUR,gpu=0.000001");
}

#[test]
fn the_most_specific_price_applies() {
    let all =
        prices("currency=EUR,gpu=1,model.h100=2.5,model.h100-80g=3,pool.spare=0.5,node.lab7=0");
    let price = |node, pool, model| all.of(node, pool, model);
    assert_eq!(price("lab1", "batch", "A100-40G"), money("1"));
    assert_eq!(price("lab1", "batch", "H100-96G"), money("2.5"));
    assert_eq!(price("lab1", "batch", "H100-80G"), money("3"));
    assert_eq!(price("lab1", "spare", "H100-80G"), money("0.5"));
    assert_eq!(price("lab7", "spare", "H100-80G"), money("0"));
    assert_eq!(prices("currency=EUR,pool.spare=1").of("lab1", "batch", "H100-80G"), None);
}

#[test]
fn a_wrong_price_is_explained() {
    for (text, part) in [
        ("gpu=1", "no currency"),
        ("currency=euro,gpu=1", "write EUR"),
        ("currency=EUR,gpu=-1", "not an amount"),
        ("currency=EUR,gpu=1.", "not an amount"),
        ("currency=EUR,gpu=0.1234567", "not an amount"),
        ("currency=EUR,gpu=99999999999999999999", "not an amount"),
        ("currency=EUR,h100=1", "model.NAME"),
        ("currency=EUR,node.=1", "not a name"),
        ("currency=EUR,gpu", "sets no price"),
    ] {
        let why = text.parse::<Prices>().expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn earlier_prices_are_kept_with_the_time_of_their_end() {
    let with = |text: &str| Policy { prices: prices(text), ..Policy::fair() };
    let change = |before: &Policy, text: &str, at: u64| {
        let mut policy = with(text);
        policy.note_prices(before, Timestamp::new(at));
        policy
    };
    let first = change(&Policy::fair(), "currency=EUR,gpu=1", 1000);
    assert!(first.past_prices.is_empty(), "the first prices apply to all time before");
    let same = change(&first, "currency=EUR,gpu=1", 2000);
    assert!(same.past_prices.is_empty());
    let second = change(&first, "none", 3000);
    let third = change(&second, "currency=EUR,gpu=2", 4000);
    let past: Vec<_> =
        third.past_prices.iter().map(|it| (it.until.get(), it.prices.to_string())).collect();
    assert_eq!(past, [(3000, "currency=EUR,gpu=1".to_owned()), (4000, "none".to_owned())]);
}
