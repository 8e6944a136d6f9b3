//! Parsers of single values, with their own messages.

use gpool_cli::args::values::devices;

#[test]
fn gpus_are_written_in_ranges() {
    assert_eq!(devices("0-2,5").as_deref(), Ok(&["0", "1", "2", "5"].map(str::to_owned)[..]));
    assert_eq!(devices("all").as_deref(), Ok(&["all".to_owned()][..]));
    assert_eq!(devices("GPU-1-2").as_deref(), Ok(&["GPU-1-2".to_owned()][..]));
    for text in ["", "0,,1", "3-1", "0-99999", "a b"] {
        assert!(devices(text).is_err(), "{text}");
    }
    let failure = devices(&["0-1023"; 5].join(",")).expect_err("more than any node has");
    assert!(failure.what().contains("more than 4096"), "{}", failure.what());
}
