//! Errors that only the command line has, beside those of the API's catalogue, and the lookup of
//! both. Codes are never reused.

use gpool_cli::errors::{OWN, find};
use gpool_model::Code;
use gpool_wire::catalogue;

#[test]
fn no_code_is_used_twice() {
    let all = catalogue::CATALOGUE.iter().chain(OWN).map(|entry| entry.code);
    let mut codes: Vec<Code> = all.collect();
    let n_codes = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), n_codes);
}

#[test]
fn codes_are_found_as_people_write_them() {
    for text in ["GP0412", "gp412", "412"] {
        assert_eq!(find(text).map(|entry| entry.exit), Some(4), "{text}");
    }
    assert_eq!(find("GP0210").map(|entry| entry.exit), Some(2));
    for text in ["", "GP", "GP9999", "é", "ÿÿ12"] {
        assert!(find(text).is_none(), "{text}");
    }
}
