//! The policies of packing experiments, as they are written: `fgd`, `rollout:margin=8`, or `fair`,
//! a preset of the real scheduler.

use std::fmt;
use std::str::FromStr;

use gpool_sched::fragmentation::RolloutRule;

use crate::packer::Rule;

/// The names of the rules.
pub const NAMES: [&str; 4] = ["random", "best-fit", "fgd", "rollout"];

/// A policy with its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    text: String,
    /// The parsed policy.
    pub by: By,
}

/// How nodes are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// By a rule alone.
    Rule(Rule),
    /// By the real scheduler.
    Preset(Box<gpool_model::Policy>),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let mut rule = match name {
            "random" => Rule::Random,
            "best-fit" => Rule::BestFit,
            "fgd" => Rule::Fgd { margin: 0 },
            "rollout" => Rule::Rollout(RolloutRule::default()),
            _ => return Self::preset(name, text),
        };
        for setting in settings.split(',').filter(|it| !it.is_empty()) {
            set(&mut rule, name, setting)?;
        }
        Ok(Self { text: text.to_owned(), by: By::Rule(rule) })
    }
}

impl Policy {
    fn preset(name: &str, text: &str) -> Result<Self, String> {
        let presets = gpool_model::Policy::PRESETS;
        if !presets.contains(&name) {
            let (rules, presets) = (NAMES.join(", "), presets.join(", "));
            return Err(format!(
                "there is no policy {name:?}; rules are {rules}, and presets {presets}"
            ));
        }
        let policy = gpool_model::Policy::from_preset(text).map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), by: By::Preset(Box::new(policy)) })
    }
}

fn set(rule: &mut Rule, name: &str, setting: &str) -> Result<(), String> {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let number = |least: u64, most: u64| match value.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("{value:?} is not a whole number from {least} to {most} for {key}")),
    };
    let small = |least: u32, most: u32| {
        number(least.into(), most.into()).map(|it| u32::try_from(it).unwrap_or(most))
    };
    match (rule, key) {
        (Rule::Fgd { margin }, "margin") => *margin = number(0, 1_000)?,
        (Rule::Rollout(rule), "margin") => rule.margin = number(0, 1_000)?,
        (Rule::Rollout(rule), "sequences") => rule.n_sequences = small(1, 10_000)?,
        (Rule::Rollout(rule), "length") => rule.length = small(1, 10_000)?,
        (Rule::Rollout(rule), "per-gpu") => rule.length_per_gpu = small(0, 10_000)?,
        (Rule::Rollout(rule), "seed") => rule.seed = number(0, u64::MAX)?,
        (rule, _) => {
            let keys = match rule {
                Rule::Random | Rule::BestFit => "none",
                Rule::Fgd { .. } => "margin",
                Rule::Rollout(_) => "margin, sequences, length, per-gpu and seed",
            };
            return Err(format!("{name} has no setting {key:?}; its settings are {keys}"));
        }
    }
    Ok(())
}
