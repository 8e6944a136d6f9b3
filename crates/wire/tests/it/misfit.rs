//! Messages for data of the wrong type: the field, the value, the expected shape.

use gpool_wire::create::{BulkDefaults, JobCreate};
use gpool_wire::json::{nearest, read};

fn refused(document: &str) -> (String, Vec<String>) {
    let problem = read::<JobCreate>(document.as_bytes()).expect_err(document);
    (problem.detail, problem.tries)
}

#[test]
fn the_field_is_named_with_what_it_should_be() {
    for (document, detail, way) in [
        (
            r#"{"priority": "5"}"#,
            r#"priority: it is the string "5""#,
            r#""priority": a whole number from -2147483648 to 2147483647, for example 5"#,
        ),
        (
            r#"{"command": "a, expected b"}"#,
            r#"command: it is the string "a, expected b""#,
            r#""command": an array of strings, for example ["python", "train.py"]"#,
        ),
        (
            r#"{"command": ["a", 7]}"#,
            "command[1]: it is the number 7",
            r#""command[1]": a string, for example "text""#,
        ),
        (r#"{"hold": null}"#, "hold: it is null", r#""hold": true or false, for example true"#),
        (
            r#"{"environment": {"A": 1.5}}"#,
            "environment.A: it is the number 1.5",
            r#""environment.A": a string, for example "text""#,
        ),
        (
            r#"{"mem": true}"#,
            "mem: it is true",
            r#""mem": a string with a unit, or a number of bytes, for example "20G""#,
        ),
        (
            r#"{"cpus": []}"#,
            "cpus: it is an array",
            r#""cpus": a number of at least 0, or a string with a unit, for example 4"#,
        ),
        (
            r#"{"umask": -1}"#,
            "umask: it is the number -1",
            r#""umask": a whole number from 0 to 4294967295, for example 18"#,
        ),
        (r#"{"pty": [24, 80]}"#, "pty: it is an array", r#"an object: {"name": value, …}"#),
        (
            r#"{"activate": ["venv"]}"#,
            "activate[0]: it is a string",
            r#""activate[0]": one of "conda", "venv", "modules""#,
        ),
        (
            r#"{"name": "a", "name": "b"}"#,
            r#"the document: "name" is given twice"#,
            "leave one of them out",
        ),
        (
            r#"{"environment": {"A": "1", "A": "2"}}"#,
            r#"environment: "A" is given twice"#,
            "leave one of them out",
        ),
        (r#""a""#, r#"the document: it is the string "a""#, r#"an object: {"name": value, …}"#),
        ("[]", "the document: it is an array", r#"an object: {"name": value, …}"#),
    ] {
        assert_eq!(refused(document), (detail.to_owned(), vec![way.to_owned()]), "{document}");
    }
    assert_eq!(refused(r#"{"script": {}}"#).0, r#"script: "name" is missing"#);
    let defaults = read::<BulkDefaults>(br#"{"defaults": {"umask": -1}}"#).expect_err("umask");
    assert_eq!(defaults.detail, "defaults.umask: it is the number -1");
}

#[test]
fn an_unknown_name_is_shown_with_its_place() {
    let (detail, tries) = refused(r#"{"pty": {"rows": 1, "column": 2}}"#);
    assert_eq!(detail, r#"pty: there is no field "column" at line 1 column 28"#);
    assert_eq!(tries, [r#"did you mean "columns"?"#]);
    let (detail, tries) = refused(r#"{"activate": [{"vnev": "/a"}]}"#);
    assert_eq!(detail, r#"activate[0]: there is no value "vnev" at line 1 column 21"#);
    assert_eq!(tries, [r#"did you mean "venv"?"#]);
}

#[test]
fn a_line_of_many_says_its_number_once() {
    let problem = read::<JobCreate>(b"{\"a\": 1}").expect_err("unknown").at_line(7);
    assert_eq!(problem.detail, "line 7: there is no field \"a\" at column 4");
    let problem = read::<JobCreate>(b"{").expect_err("cut off").at_line(7);
    assert!(problem.detail.ends_with(" at column 1"), "{}", problem.detail);
}

#[test]
fn what_is_repeated_is_short_and_obeyed_by_no_terminal() {
    let (detail, _) = refused("{\"environment\": {\"A\\u001b[31m\": 5}}");
    assert_eq!(detail, "environment.A\\u{1b}[31m: it is the number 5");
    let long = "a".repeat(100_000);
    for document in [
        format!(r#"{{"{long}": 1}}"#),
        format!(r#"{{"hold": "{long}"}}"#),
        format!(r#"{{"environment": {{"{long}": 5}}}}"#),
        format!(r#"{{"environment": {{"{long}": "", "{long}": ""}}}}"#),
    ] {
        let (detail, tries) = refused(&document);
        assert!(detail.len() + tries.concat().len() < 1000, "{detail:.200}");
    }
    assert_eq!(nearest("commands", ["command"]), Some("command"));
    assert_eq!(nearest(&"command".repeat(1000), ["command"]), None);
}
