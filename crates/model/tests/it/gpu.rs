//! Tests of `gpu`.

use gpool_model::gpu::{GpuAmount, GpuRequest, GpuRequestError};
use gpool_model::share::ShareError;
use gpool_model::unit::{Bytes, MilliGpu};

fn parsed(text: &str) -> GpuRequest {
    GpuRequest::parse(text).expect(text)
}

#[test]
fn requests_round_trip() {
    for (text, written) in [
        ("2", "2"),
        ("0", "0"),
        ("a100:2", "a100:2"),
        ("A100", "a100:1"),
        ("a100-80g|h100:2", "a100-80g|h100:2"),
        ("40G..:2", "40G..:2"),
        ("40G..", "40G..:1"),
        ("1.5K..:2", "1536B..:2"),
        ("0B..", "0G..:1"),
        ("0.5", "0.5"),
        ("0.250", "0.25"),
        ("0.5:0.5", "0.5"),
        ("0.25:0.80", "0.25:0.8"),
        ("0.5:1", "0.5:1"),
        ("a100:0.5:1.0", "a100:0.5:1"),
        ("2@0.5:0.8", "2@0.5:0.8"),
        ("1@0.5:0.8", "0.5:0.8"),
        ("1@20G:40G", "1@20G:40G"),
        ("40G..:2@20G:40G", "40G..:2@20G:40G"),
        ("a100:0.5", "a100:0.5"),
        ("2@0.5", "2@0.5"),
        ("1@0.5", "0.5"),
        ("0@0.5", "0.5"),
        ("a100|h100:2@20G", "a100|h100:2@20G"),
        ("40G..@20G", "40G..:1@20G"),
        ("1@1.5K", "1@1536B"),
    ] {
        assert_eq!(parsed(text).to_string(), written);
        assert_eq!(parsed(&parsed(text).to_string()), parsed(text));
    }
}

#[test]
fn malformed_requests_name_the_position() {
    for text in [
        "",
        "-1",
        "1:2",
        "a100:-1",
        "a100:",
        ":2",
        "a100::2",
        "99999999999",
        "1025",
        "a100|:1",
        "40..:2",
        "x\u{1b}[31m",
        "½",
        "2 ",
        "a100:x",
    ] {
        let error = GpuRequest::parse(text).expect_err(text);
        assert!(matches!(error, GpuRequestError::Malformed(_)), "{text}: {error}");
    }
}

#[test]
fn invalid_fractions_have_errors_of_their_own() {
    for text in [
        "0.0",
        "1.5",
        "0.0001",
        "1@0",
        "1@0B",
        "1@",
        "0.8:0.25",
        "0.5:1.1",
        "0.5:0.0001",
        "1@0:0.5",
        "1@40G:20G",
        "1@0B:20G",
        "1@0.5:20G",
        "1@20G:0.5",
        "1@0.5:",
        "1@:0.5",
        "1@0.1:0.2:0.3",
    ] {
        let error = GpuRequest::parse(text).expect_err(text);
        assert!(matches!(error, GpuRequestError::Share(_)), "{text}: {error}");
    }
    let error = GpuRequest::parse("0.5@20G").expect_err("a share of a share");
    assert!(matches!(error, GpuRequestError::Share(ShareError::OfNothing { .. })), "{error}");
    for text in ["2..8", "a100:2..8"] {
        let error = GpuRequest::parse(text).expect_err(text);
        assert!(matches!(error, GpuRequestError::Unsupported { .. }), "{text}: {error}");
    }
}

#[test]
fn a_share_by_memory_needs_a_device_with_that_memory() {
    assert_eq!(parsed("1@20G").memory_needed(), Some(Bytes::from_gib(20)));
    assert_eq!(parsed("40G..:1@20G").memory_needed(), Some(Bytes::from_gib(40)));
    assert_eq!(parsed("10G..:1@20G").memory_needed(), Some(Bytes::from_gib(20)));
    assert_eq!(parsed("0.5").memory_needed(), None);
}

#[test]
fn instances_are_requested_by_profile_or_mig() {
    for (text, count) in [("1g.10gb", 1), ("h100-1g.10gb:2", 2), ("mig", 1), ("1g|2g:3", 3)] {
        let request = parsed(text);
        let amount = GpuAmount::Instances { count, each: MilliGpu::DEVICE };
        assert_eq!((request.amount, request.is_of_instances()), (amount, true), "{text}");
        assert_eq!(parsed(&request.to_string()), request, "{text}");
    }
    for text in ["h100:1", "40G..:1", "80g", "2"] {
        assert!(!parsed(text).is_of_instances(), "{text}");
    }
}

#[test]
fn shares_of_instances_and_mixed_requests_are_refused() {
    for text in ["1g.10gb:0.5", "1g.10gb@5G", "mig:2@0.5"] {
        let error = GpuRequest::parse(text).expect_err(text);
        let is_share = matches!(error, GpuRequestError::Share(ShareError::OfInstance { .. }));
        assert!(is_share, "{text}: {error}");
    }
    let error = GpuRequest::parse("1g.10gb|h100:1").expect_err("either");
    assert!(matches!(error, GpuRequestError::DevicesOrInstances { .. }), "{error}");
}
