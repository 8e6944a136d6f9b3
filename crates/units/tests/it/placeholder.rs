//! Tests of `placeholder`.

use gpool_units::placeholder::{fill, names};

#[test]
fn placeholders_are_replaced() {
    let params = [("lr", "0.1"), ("seed", "7")];
    for (text, filled) in [
        ("--lr={lr}", "--lr=0.1"),
        ("{lr}-{seed}{lr}", "0.1-70.1"),
        ("{}", "a b"),
        ("x{}y", "xa by"),
        ("{{lr}} {{}}", "{lr} {}"),
        ("${lr} $ {lr}", "${lr} $ 0.1"),
        ("{other} {{other}}", "{other} {other}"),
        ("awk '{print $1}' {", "awk '{print $1}' {"),
        ("{l r} {1} }{", "{l r} {1} }{"),
        ("{{lr}", "{0.1"),
        ("é{lr}é", "é0.1é"),
        ("", ""),
    ] {
        assert_eq!(fill(text, Some("a b"), &params), filled, "{text}");
    }
    assert_eq!(fill("{} {lr}", None, &[]), "{} {lr}");
    assert_eq!(names("{lr} {} {x_1} ${y} {{z}} {1}"), ["lr", "x_1"]);
}
