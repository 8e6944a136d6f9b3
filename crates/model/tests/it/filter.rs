//! Tests of `filter`.

use gpool_model::filter::NodeRule;

#[test]
fn rules_round_trip() {
    for text in ["rack=3", "rack!=3", "ssd", "!ssd", "rack=3|rack=4", "a100|h100", "x="] {
        assert_eq!(NodeRule::parse(text).expect(text).to_string(), text);
    }
    for (text, position) in [("", 0), ("3", 0), ("rack=3|4", 7), ("a=b c", 0), ("a-", 0)] {
        assert_eq!(NodeRule::parse(text).expect_err(text).position, position, "{text}");
    }
}
