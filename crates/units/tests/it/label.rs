//! Tests of `label`.

use gpool_units::label::{LabelChange, Labels};

#[test]
fn changes_add_replace_and_remove() {
    let before: Labels = [("rack", "3"), ("old", "")].map(|(a, b)| (a.into(), b.into())).into();
    let change = LabelChange::parse(["rack=4", "ssd", "old-", "none-"]).expect("labels");
    let after: Labels = [("rack", "4"), ("ssd", "")].map(|(a, b)| (a.into(), b.into())).into();
    assert_eq!(change.applied_to(&before), after);
    for word in ["", "=3", "-", "3=x", "a=b c"] {
        LabelChange::parse([word]).expect_err(word);
    }
}
