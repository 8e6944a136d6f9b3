//! Times in the API: RFC 3339, UTC, milliseconds. This module reads no clock.

use gpool_model::Timestamp;
use gpool_wire::Time;

#[test]
fn moments_read_what_they_print() {
    for (millis, text) in
        [(0, "1970-01-01T00:00:00.000Z"), (1_795_188_600_123, "2026-11-20T15:30:00.123Z")]
    {
        let time = Time(Timestamp::new(millis));
        assert_eq!(time.to_string(), text);
        assert_eq!(text.parse(), Ok(time));
    }
    assert_eq!(
        "2026-11-20T16:30:00.123+01:00".parse(),
        Ok(Time(Timestamp::new(1_795_188_600_123)))
    );
    for text in ["", "now", "1969-12-31T23:59:59Z", "2026-11-20"] {
        assert!(text.parse::<Time>().is_err(), "{text}");
    }
}

#[test]
fn a_broken_clock_can_be_printed() {
    assert!(Time(Timestamp::MAX).to_string().starts_with("9999-12-3"));
}
