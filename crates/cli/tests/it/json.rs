//! The JSON that commands print: one document with keys in the order of the API, without characters
//! that control a terminal.

use gpool_cli::render::json::{line, list};
use serde::Serialize;

#[test]
fn keys_stand_in_the_order_of_the_type() {
    #[derive(Serialize)]
    struct Thing {
        name: &'static str,
        age: u32,
    }
    let thing = Thing { name: "\u{9b}2J", age: 1 };
    assert_eq!(line(&thing), "{\"name\":\"\\u009b2J\",\"age\":1}\n");
    let document = list(&[thing]);
    assert!(document.find("name") < document.find("age"), "{document}");
    let read: serde_json::Value = serde_json::from_str(&document).expect("it is JSON");
    assert_eq!(read["apiVersion"], "gpool/v1");
    assert_eq!(read["items"][0]["name"], "\u{9b}2J");
}
