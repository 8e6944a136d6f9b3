//! Tests of `mig`.

use gpool_model::mig::{LayoutError, Profile};
use gpool_model::unit::Bytes;

fn layout(text: &str) -> Result<Vec<Profile>, LayoutError> {
    Profile::layout(text.split('+'), Bytes::from_gib(80))
}

#[test]
fn layouts_larger_than_the_device_are_refused() {
    for text in ["1g.10gb", "3g.40gb+2g.20gb+1g.10gb+1g.10gb", "4g.40gb+3g.40gb", "7g.80gb"] {
        let profiles: Vec<String> =
            layout(text).expect(text).iter().map(Profile::to_string).collect();
        assert_eq!(profiles.join("+"), text);
    }
    for text in ["", "1g", "10gb", "g.10gb", "1g.gb", "1g.0gb", "1g.10", "+1g.10gb", "a"] {
        let error = layout(text).expect_err(text);
        assert!(matches!(error, LayoutError::Malformed { .. }), "{text}: {error}");
    }
    assert_eq!(layout("5g.40gb"), Err(LayoutError::NoSuchSize { slices: 5 }));
    let slices = 8;
    assert_eq!(layout("4g.20gb+4g.20gb"), Err(LayoutError::TooManySlices { slices }));
    let (total, memory) = (Bytes::from_gib(81), Bytes::from_gib(80));
    let too_much = LayoutError::TooMuchMemory { total, memory };
    assert_eq!(layout("3g.40gb+1g.41gb"), Err(too_much));
}
