//! The YAML that commands print: the keys of the JSON, in block style. Text that YAML could read as
//! another type is quoted as in JSON.

use gpool_cli::render::yaml::of_json;

#[test]
fn every_value_is_written_as_yaml_reads_it() {
    let json = r#"{"apiVersion":"gpool/v1","items":[{"id":"1","n":[1,2],"none":[],"o":{}},
        {"id":"a","deep":[[1],[]],"in":{"b":1.0,"c":null,"no":"yes"},"t":"a: \"b\"\n\u009b"}],
        "ok":true}"#;
    let expected = r#"apiVersion: gpool/v1
items:
  - id: "1"
    "n":
      - 1
      - 2
    none: []
    o: {}
  - id: a
    deep:
      -
        - 1
      - []
    in:
      b: 1.0
      c: null
      "no": "yes"
    t: "a: \"b\"\n\u009b"
ok: true
"#;
    assert_eq!(of_json(json), expected);
    assert_eq!(of_json("[]"), "[]\n");
    assert_eq!(of_json("{}"), "{}\n");
}
