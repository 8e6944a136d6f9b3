//! Tests of the public items of the crate, in one binary.

mod container;
mod items;
mod ledger;
mod records;

use gpool_map::message::Answer;
use serde_json::json;

#[test]
fn answers_of_programs_are_read() {
    let read = Answer::read;
    assert_eq!(read(r#"{"gpool": {"done": 3}}"#), Some(Answer::Done(3, None)));
    let result = r#"{"gpool": {"done": 3, "result": {"a": [1]}}}"#;
    assert_eq!(read(result), Some(Answer::Done(3, Some(json!({"a": [1]})))));
    let failed = r#"{"gpool": {"failed": 4, "why": "no such file"}}"#;
    assert_eq!(read(failed), Some(Answer::Failed(4, "no such file".to_owned())));
    for other in [
        "",
        "done 3",
        "{\"gpool\"",
        "{\"done\": 3}",
        r#"{"gpool": {"metrics": {"loss": 1}}}"#,
        r#"{"gpool": {"done": -1}}"#,
        r#"{"gpool": {"done": 3, "failed": 3}}"#,
        r#"{"gpool": {"done": "3"}}"#,
    ] {
        assert_eq!(read(other), None, "{other}");
    }
}
