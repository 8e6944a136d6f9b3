//! Comma-separated values with a header, see RFC 4180.

use serde_json::json;

use gpool_lab::render::csv::of;

#[test]
fn what_was_written_is_read_back() {
    let items = [
        json!({"name": "a \"b\", c", "wait": 1.5, "most": null, "other": 1}),
        json!({"name": "x\ny", "wait": 2, "most": 7}),
    ];
    let text = of(&["name", "most", "wait"], &items);
    assert_eq!(text, "name,most,wait\n\"a \"\"b\"\", c\",,1.5\nx\\ny,7,2\n");
}
