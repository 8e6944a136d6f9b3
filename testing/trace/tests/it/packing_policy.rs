//! The policies of packing experiments, as they are written: `fgd`, `rollout:margin=8`, or `fair`,
//! a preset of the real scheduler.

use gpool_sched::fragmentation::RolloutRule;
use gpool_trace::packer::Rule;
use gpool_trace::packing_policy::{By, Policy};

#[test]
fn a_policy_is_read_with_its_settings() {
    let policy: Policy = "rollout:margin=8,length=20,per-gpu=0".parse().unwrap();
    let expected =
        RolloutRule { margin: 8, length: 20, length_per_gpu: 0, ..RolloutRule::default() };
    assert_eq!(policy.by, By::Rule(Rule::Rollout(expected)));
    assert_eq!(policy.to_string(), "rollout:margin=8,length=20,per-gpu=0");
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let refused = |text: &str| text.parse::<Policy>().unwrap_err();
    assert_eq!(
        refused("best"),
        "there is no policy \"best\"; rules are random, best-fit, fgd, rollout, and \
         presets fair, users, fixed, priority, static, fifo, valohai, las"
    );
    let preset = "fifo:planned_starts=0".parse::<Policy>().unwrap();
    assert!(matches!(preset.by, By::Preset(_)));
    assert_eq!(
        refused("fair:length=3").split(';').next(),
        Some("length: there is no such setting")
    );
    assert_eq!(refused("fgd:length=3"), "fgd has no setting \"length\"; its settings are margin");
    assert_eq!(refused("fgd:margin=-1"), "\"-1\" is not a whole number from 0 to 1000 for margin");
}
