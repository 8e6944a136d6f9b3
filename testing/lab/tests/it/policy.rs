//! The policies for a trace: a preset of the scheduler with settings, the policy of a store, or a
//! baseline, which is the rule of another scheduler.

use gpool_lab::simulate::policy::NamedPolicy;
use gpool_model::Policy;
use gpool_trace::baseline::Rule;

#[test]
fn presets_have_settings_and_baselines_have_none() {
    for text in ["fair", "fifo:planned_starts=0,order=gpus+age", "easy", "tiresias"] {
        let policy: NamedPolicy = text.parse().unwrap();
        assert_eq!(policy.text, text);
        assert_eq!(policy.is_baseline(), !text.starts_with('f'), "{text}");
    }
    let refused = |text: &str| text.parse::<NamedPolicy>().unwrap_err();
    assert!(refused("easy:x=1").contains("write easy, or a preset"), "{}", refused("easy:x=1"));
    assert!(refused("easy:").contains("no settings"), "{}", refused("easy:"));
    let unknown = refused("fastest");
    for name in Policy::PRESETS.into_iter().chain(Rule::ALL.map(Rule::name)) {
        assert!(unknown.contains(name), "{name}: {unknown}");
    }
}

#[test]
fn no_baseline_is_named_as_a_preset() {
    for rule in Rule::ALL {
        assert!(!Policy::PRESETS.contains(&rule.name()), "{rule}");
        assert_eq!(rule.name().parse(), Ok(rule));
    }
}
