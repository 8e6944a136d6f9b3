//! `gpool up`: starts the server of this machine, in the background by default.

use gpool::verbs::up::{from_log, refused, strategy};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_model::{Code, DeviceStrategy};

#[test]
fn what_the_server_refused_decides_how_this_ends() {
    let failure =
        refused(&["not a valid prefix".to_owned(), "lab1 has no GPU \"2\" (GP0604)".into()]);
    assert_eq!((failure.code(), failure.exit()), (Some(Code(604)), Exit(6)));
    assert!(failure.text(false).contains("why  lab1 has no GPU \"2\"\n"));
    // The failure survives the way through the log unchanged.
    let log = format!("2026 INFO took over\n{}", failure.text(false));
    assert_eq!(from_log("exit status: 6", &log), failure);
    assert_eq!(refused(&["a (b)".to_owned()]).code(), Some(errors::NOT_STARTED));
    let failure = from_log("signal: 9", "one\ntwo\n");
    assert!(failure.text(false).contains("(signal: 9)\n  why  one\n       two\n"));
}

#[test]
fn an_unknown_strategy_is_refused_with_the_nearest() {
    assert_eq!(strategy("pack"), Ok(DeviceStrategy::Pack));
    let failure = strategy("sequental").expect_err("no such strategy");
    assert!(failure.text(false).contains("--strategy sequential"));
}
