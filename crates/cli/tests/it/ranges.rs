//! Ranges in the values of `gbatch --param`: `1:5`, `0:1:0.1`. They include both ends. Decimals are
//! computed as whole numbers, so `0:1:0.1` has exactly eleven values.

use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::PassedFlag;
use gpool_cli::foreign::gflow::flags::JOB;
use gpool_cli::foreign::gflow::ranges::written_out;

fn read(text: &str) -> Result<String> {
    let flag = JOB.iter().find(|flag| flag.long == "param").expect("a flag");
    written_out(&PassedFlag { flag, value: text.to_owned(), place: None })
}

#[test]
fn ranges_have_both_ends() {
    for (text, values) in [
        ("n=1:3", "n=1,2,3"),
        ("n=3:1", "n=3,2,1"),
        ("n=0:10:5", "n=0,5,10"),
        ("lr=0:1:0.25", "lr=0,0.25,0.50,0.75,1"),
        ("lr=0:0.3:0.1", "lr=0,0.1,0.2,0.3"),
        ("x=-1:1:1", "x=-1,0,1"),
        ("x=1:0:-0.5", "x=1,0.5,0"),
        ("lr=0.1, 0.2", "lr=0.1,0.2"),
        ("at=http://host:80", "at=http://host:80"),
        ("one=5", "one=5"),
        ("l=[\"a,b\"]", "l=[\"a,b\"]"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(values), "{text}");
    }
    let tenths = read("lr=0:1:0.1").expect("a range");
    assert_eq!(tenths.split(',').count(), 11, "{tenths}");
    for text in ["n=1:3:-1", "n=1:3:0", "n=0:99999999"] {
        assert!(read(text).is_err(), "{text}");
    }
}
