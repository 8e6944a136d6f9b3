//! Names and numbers of signals on Linux for x86 and Arm.

use gpool_model::Refusal;
use gpool_wire::Quantity;
use gpool_wire::signal::number;

#[test]
fn signals_have_names_and_numbers() {
    for text in ["USR1", "sigusr1", "10"] {
        assert_eq!(number(&Quantity::from(text)), Ok(10), "{text}");
    }
    assert_eq!(number(&Quantity::from(9)), Ok(9));
    for text in ["0", "65", "-1", "", "SIG", "USR", "\u{1b}[31m"] {
        assert!(number(&Quantity::from(text)).is_err(), "{text:?}");
    }
    let refusal = number(&Quantity::from("TREM")).expect_err("no such signal");
    assert!(matches!(refusal, Refusal::Invalid { why, .. } if why.contains("TERM")));
}
