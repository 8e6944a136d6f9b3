//! `scontrol update`: `JobId=17 TimeLimit=2:00:00`, `NodeName=lab1 State=DRAIN Reason=disk`.

use gpool_compat::testing::limit;

#[test]
fn limits_are_set_or_moved() {
    for (text, flag) in [
        ("90", "--to=5400s"),
        ("2:00:00", "--to=7200s"),
        ("1-0", "--to=86400s"),
        ("+30", "--by=+1800s"),
        ("-0:30", "--by=-30s"),
        ("UNLIMITED", "--to=none"),
    ] {
        assert_eq!(limit(text).as_deref(), Ok(flag), "{text}");
    }
    assert!(limit("soon").is_err());
}
