//! Files that are made to cost time or memory are refused.

use gpool_valohai::Document;
use gpool_valohai::yaml;

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = String::from("- &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("- &a{level} [{aliases}]\n"));
    }
    let refusal = yaml::parse(&text).unwrap_err();
    assert!(refusal.what.contains("more than 100000 values"), "{refusal}");
    assert_eq!(refusal.line, 4, "{refusal}");
}

#[test]
fn deep_nesting_is_refused() {
    for text in ["[".repeat(10_000), "- ".repeat(10_000), "{a: ".repeat(10_000)] {
        let document = Document::read(&text);
        assert!(!document.can_run());
        let what = &document.findings[0].what;
        // The parser has a limit of its own for lists and mappings in one line.
        let is_limit = ["nested more than 64 deep", "recursion limit exceeded"];
        assert!(is_limit.iter().any(|limit| what.contains(limit)), "{what}");
    }
}

#[test]
fn a_large_file_is_refused() {
    let document = Document::read(&"#".repeat((1 << 20) + 1));
    assert!(document.findings[0].what.contains("the limit is 1048576"), "{document:?}");
}

#[test]
fn an_alias_inside_its_anchor_is_refused() {
    let refusal = yaml::parse("- &a [*a]\n").unwrap_err();
    assert!(refusal.what.contains("inside its own anchor"), "{refusal}");
}

#[test]
fn several_documents_and_unknown_tags_are_refused() {
    for text in ["- a\n---\n- b\n", "- !python/object:os.system a\n", "- !!int x\n", "- *none\n"] {
        assert!(yaml::parse(text).is_err(), "{text}");
    }
}
