//! Tests of `pattern`.

use gpool_model::pattern::{ModelPattern, short_model};

const INSTANCE: &str = "NVIDIA A100-SXM4-80GB MIG 3g.40gb";

#[test]
fn models_match_whole_words_in_any_case() {
    let model = "NVIDIA A100-SXM4-80GB";
    for pattern in ["a100", "A100-80g", "a100-80gb", "nvidia a100", "sxm4"] {
        assert!(ModelPattern::new(pattern).matches(model), "{pattern}");
    }
    for pattern in ["a10", "a100-40g", "80g-a100", "h100", "a100-sxm4-80gb-x"] {
        assert!(!ModelPattern::new(pattern).matches(model), "{pattern}");
    }
}

#[test]
fn short_models_keep_names_that_users_know() {
    for (model, short) in [
        ("NVIDIA A100-SXM4-80GB", "A100-80G"),
        ("NVIDIA H100 80GB HBM3", "H100-80G"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("Tesla T4", "T4"),
        ("NVIDIA", "NVIDIA"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "H100-80G-1g.10gb"),
    ] {
        assert_eq!(short_model(model), short);
    }
}

#[test]
fn only_patterns_with_a_profile_match_by_profile() {
    for pattern in ["3g", "3g.40gb", "3G.40GB", "a100-3g.40gb", "a100-80g-3g.40g", "mig"] {
        let pattern = ModelPattern::new(pattern);
        assert!(pattern.names_instance() && pattern.matches(INSTANCE), "{pattern:?}");
        assert!(!pattern.matches("NVIDIA A100-SXM4-80GB"), "{pattern:?}");
    }
    for pattern in ["1g.10gb", "3g.20gb", "h100-3g.40gb", "40g-mig"] {
        let pattern = ModelPattern::new(pattern);
        assert!(pattern.names_instance() && !pattern.matches(INSTANCE), "{pattern:?}");
    }
    for pattern in ["40g", "40gb", "a100-40g", "8g", "10g", "2gb"] {
        let pattern = ModelPattern::new(pattern);
        assert!(!pattern.names_instance() && !pattern.matches(INSTANCE), "{pattern:?}");
    }
    let device = ModelPattern::new("a100-80g");
    assert!(!device.names_instance() && device.matches(INSTANCE), "a quota's");
    let exact = ModelPattern::exactly(INSTANCE);
    assert!(exact.names_instance() && exact.matches(INSTANCE));
}
