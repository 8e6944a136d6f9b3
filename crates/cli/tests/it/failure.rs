//! Failures of verbs, in four parts and always in this order: what failed, why, what to try, and a
//! code to look up.

use gpool_cli::exit::Exit;
use gpool_cli::failure::Failure;

fn impossible() -> Failure {
    Failure::new(
        gpool_wire::catalogue::IMPOSSIBLE_GPUS,
        "no node could ever run this: 16 × H100 on one node",
    )
    .why("the largest H100 node is lab7 with 8")
    .tip("gpool run --gpus h100:8 -- python x.py")
    .tip("gpool run --gpus a100:16 -- python \u{1b}[2J")
}

#[test]
fn an_error_says_what_why_try_and_code() {
    insta::assert_snapshot!(impossible().text(false), @r"
    error: no node could ever run this: 16 × H100 on one node
      why  the largest H100 node is lab7 with 8
      try  gpool run --gpus h100:8 -- python x.py
           gpool run --gpus a100:16 -- python \x1b[2J
      GP0412 · gpool help GP0412
    ");
    assert_eq!(impossible().exit(), Exit(4));
}

#[test]
fn the_json_of_an_error_is_one_document() {
    let document: serde_json::Value =
        serde_json::from_str(&impossible().json()).expect("it is JSON");
    assert_eq!(document["error"]["code"], "GP0412");
    assert_eq!(document["error"]["docs"], "gpool help GP0412");
    assert_eq!(document["error"]["try"][0], "gpool run --gpus h100:8 -- python x.py");
}

#[test]
fn a_closed_pipe_says_nothing() {
    assert_eq!(Failure::pipe_closed().text(true), "");
    assert_eq!(Failure::pipe_closed().json(), "");
}
