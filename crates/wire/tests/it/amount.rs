//! An amount as users write it: a number in the API's unit, or text with a unit.

use gpool_wire::Quantity;

#[test]
fn numbers_and_text_are_read_and_nothing_else() {
    let read = |text| serde_json::from_str::<Quantity>(text);
    assert_eq!(read("5").expect("whole"), Quantity::Whole(5));
    assert_eq!(read("0.5").expect("decimal"), Quantity::Decimal(0.5));
    assert_eq!(read("\"20G\"").expect("text"), Quantity::Text("20G".to_owned()));
    for text in ["-1", "-0.5", "true", "null", "[]", "{}"] {
        assert!(read(text).is_err(), "{text}");
    }
}
