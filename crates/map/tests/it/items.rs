//! Tests of `items`.

use std::io::Cursor;

use gpool_map::items::{Form, ItemReader, copy};
use serde_json::{Value, json};

/// The items of a text.
fn items(text: &[u8], form: Form) -> Result<Vec<Value>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("items.jsonl");
    let n = copy(Cursor::new(text.to_vec()), form, &path)?;
    let mut reader = ItemReader::open(&path).expect("the items");
    let found = (0..n).map(|id| reader.read(id).expect("an item").item).collect();
    assert!(reader.read(n).is_err());
    Ok(found)
}

#[test]
fn lists_are_read_in_each_form() {
    let lines = items("a.jpg\r\n\n  b \u{e9}\n\"c\"".as_bytes(), Form::Lines);
    assert_eq!(lines, Ok(vec![json!("a.jpg"), json!("  b \u{e9}"), json!("\"c\"")]));
    let values = items(b"{\"a\": 1}\n[2]\n\n3", Form::Jsonl);
    assert_eq!(values, Ok(vec![json!({"a": 1}), json!([2]), json!(3)]));
    let rows = items(b"id,text\n1,\"a,\n\"\"b\"\"\"\n2,\n", Form::Csv);
    let expected = [json!({"id": "1", "text": "a,\n\"b\""}), json!({"id": "2", "text": ""})];
    assert_eq!(rows, Ok(expected.to_vec()));
}

#[test]
fn a_wrong_list_is_refused_with_its_line() {
    let wrong = |text: &[u8], form| items(text, form).expect_err("it is wrong");
    assert!(wrong(b"1\n{\"a\"\n", Form::Jsonl).starts_with("line 2: it is not JSON"));
    assert!(wrong(b"a\n\xff\n", Form::Lines).starts_with("line 2: it is not UTF-8"));
    assert!(wrong(b"a,b\n1,2\n3\n", Form::Csv).contains("line: 3"));
    let long = vec![b'x'; (1 << 20) + 1];
    assert!(wrong(&[b"a\n", &long[..]].concat(), Form::Lines).starts_with("line 2: it has more"));
    assert_eq!(items(b"", Form::Lines), Ok(Vec::new()));
}

#[test]
fn items_can_be_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("items.jsonl");
    copy(Cursor::new("0\n1\n2\n3"), Form::Lines, &path).expect("items");
    let mut reader = ItemReader::open(&path).expect("the items");
    assert_eq!(reader.read(1).expect("an item").item, json!("1"));
    assert_eq!(reader.read(3).expect("an item").item, json!("3"));
}
