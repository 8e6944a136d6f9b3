//! Percentiles, rates and tokens.

use gpool_gateway::measure::{Minute, tokens_in};
use proptest::prelude::*;

#[test]
fn the_figures_are_those_of_the_last_minute() {
    let mut minute = Minute::default();
    assert_eq!(minute.figures(500).p50_ms, None);
    (0..1000).for_each(|n| minute.answered(5_000, n));
    let figures = minute.figures(10_000);
    assert!((figures.requests_s - 100.0).abs() < 1.0, "{figures:?}");
    assert!(figures.p99_ms > figures.p50_ms);
    assert_eq!(minute.figures(70_000).p50_ms, None);
}

#[test]
fn tokens_are_those_that_the_server_reports() {
    let answer = br#"{"usage": {"prompt_tokens": 9, "completion_tokens": 128}}"#;
    assert_eq!(tokens_in(answer), Some(128));
    assert_eq!(tokens_in(b"data: {\"completion_tokens\":1}\n\n{\"completion_tokens\":2}"), Some(2));
    assert_eq!(tokens_in(b"\"completion_tokens\": null"), None);
    let mut minute = Minute::default();
    minute.tokens(0, 500);
    assert_eq!(minute.figures(1000).tokens_s, Some(500.0));
}

proptest! {
    #[test]
    fn a_percentile_is_exact_to_four_percent(
        times in prop::collection::vec(0_u64..9_000_000, 1..200),
    ) {
        let mut minute = Minute::default();
        times.iter().for_each(|us| minute.answered(0, *us));
        let mut sorted = times.clone();
        sorted.sort_unstable();
        #[expect(clippy::cast_precision_loss)]
        let exact = sorted[(sorted.len() * 50).div_ceil(100) - 1] as f64 / 1000.0;
        let p50 = minute.figures(0).p50_ms.unwrap();
        prop_assert!(p50 >= exact && p50 <= exact * 1.04 + 0.001, "{p50} {exact}");
    }
}
