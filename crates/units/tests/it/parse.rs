//! Tests of `parse`.

use gpool_units::parse::{bytes, cpus, span};
use gpool_units::unit::{Bytes, MilliCpu, Millis};

#[test]
fn memory_needs_a_unit_and_g_is_gib() {
    assert_eq!(bytes("20G"), Ok(Bytes::from_gib(20)));
    assert_eq!(bytes("1.5g"), Ok(Bytes::from_mib(1536)));
    assert_eq!(bytes("20 GiB"), Ok(Bytes::from_gib(20)));
    assert_eq!(bytes("7B"), Ok(Bytes::new(7)));
    for text in ["", "20", "G", "-5G", "12Q", "1..5G", "99999999999T", "1e3G", "ⅷG"] {
        assert!(bytes(text).is_err(), "{text}");
    }
    assert_eq!(
        bytes("12Q").expect_err("no such unit").to_string(),
        "\"12Q\" is not an amount of memory (position 3: 'Q'); write, for example, 20G or 512M"
    );
}

#[test]
fn durations_parse_in_every_form() {
    for (text, seconds) in [
        ("90", 5400),
        ("1h30m", 5400),
        ("45s", 45),
        ("2d", 172_800),
        ("5:30", 330),
        ("01:00:00", 3600),
        ("2-00:00:00", 172_800),
        ("1-12", 129_600),
        ("0", 0),
    ] {
        assert_eq!(span(text).map(Millis::get), Ok(seconds * 1000), "{text}");
    }
    for text in ["", "-5", "1h1h", "30m1h", "h", "1:99", "1:2:3:4", "5x", "1.5h", "1 h", "٣"] {
        assert!(span(text).is_err(), "{text}");
    }
    assert!(span("99999999999999999").is_err());
}

#[test]
fn cores_have_at_most_three_decimals() {
    assert_eq!(cpus("1.5"), Ok(MilliCpu::new(1500)));
    for text in ["", "-1", "1.2345", "a", ".", "1.", "99999999999999999999"] {
        assert!(cpus(text).is_err(), "{text}");
    }
}
