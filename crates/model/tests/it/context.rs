//! Tests of `context`.

use gpool_model::context::LaunchContext;

#[test]
fn contexts_round_trip_in_few_bytes() {
    let values: Vec<u8> = (0..=255).collect();
    let context = LaunchContext {
        environment: vec![(b"A".to_vec(), values), (b"EMPTY".to_vec(), Vec::new())],
        limits: vec![(7, Some(1024), Some(4096)), (3, None, Some(0)), (0, None, None)],
        umask: Some(0o027),
    };
    let bytes = context.bytes();
    assert_eq!(LaunchContext::read(&bytes), Some(context.clone()));
    // JSON takes four times the size of the values.
    assert!(bytes.len() < 360, "{}", bytes.len());
    let plain = LaunchContext { umask: None, ..context };
    assert_eq!(LaunchContext::read(&plain.bytes()), Some(plain));
    assert_eq!(
        LaunchContext::read(&LaunchContext::default().bytes()),
        Some(LaunchContext::default())
    );
}

#[test]
fn truncated_and_foreign_bytes_are_rejected() {
    let context = LaunchContext {
        environment: vec![(b"NAME".to_vec(), b"value".to_vec())],
        limits: vec![(7, Some(1), None)],
        umask: None,
    };
    let bytes = context.bytes();
    for length in 0..bytes.len() {
        assert_eq!(LaunchContext::read(&bytes[..length]), None, "cut at {length}");
    }
    assert_eq!(LaunchContext::read(b"{}"), None);
    let huge = [&[1][..], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(LaunchContext::read(&huge), None);
}
