//! `gpool signal`: sends a signal to the processes of running jobs.

use gpool_verbs::signal::check;

#[test]
fn signals_have_names_and_numbers() {
    for (text, signal) in [("usr1", 10), ("SIGTERM", 15), ("9", 9), ("64", 64)] {
        assert_eq!(check(text), Ok(signal));
    }
    for text in ["", "0", "65", "-9", "SIG", "TREM"] {
        assert!(check(text).is_err(), "{text}");
    }
}
