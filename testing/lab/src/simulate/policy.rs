//! The policies for a trace: a preset of the scheduler with settings, the policy of a store, or a
//! baseline, which is the rule of another scheduler.

use std::str::FromStr;

use gpool_model::{Command, Policy};
use gpool_trace::baseline::{self, Rule};
use gpool_trace::jobs::TraceJob;
use gpool_trace::look::Look;
use gpool_trace::queue::{self, Outcome, PlayError, Terms};
use gpool_trace::{Nodes, TraceError};

/// The name of the store's own policy.
pub const AS_IS: &str = "as-is";

/// A policy with its text.
#[derive(Debug, Clone)]
pub struct NamedPolicy {
    /// The text on the command line.
    pub text: String,
    by: By,
}

#[derive(Debug, Clone)]
enum By {
    AsIs,
    Preset(Box<Policy>),
    Baseline(Rule),
}

impl NamedPolicy {
    /// The default policies for a store or a file.
    #[must_use]
    pub fn usual(of_store: bool) -> Vec<Self> {
        let fair = (Policy::fair(), "fair");
        let fifo = (Policy::fifo(), "fifo");
        let preset = |(policy, text): (Policy, &str)| Self {
            text: text.to_owned(),
            by: By::Preset(Box::new(policy)),
        };
        match of_store {
            true => vec![Self { text: AS_IS.to_owned(), by: By::AsIs }, preset(fair)],
            false => vec![preset(fifo), preset(fair)],
        }
    }

    /// Whether it is the policy of a store, which files do not have.
    #[must_use]
    pub fn is_as_is(&self) -> bool {
        matches!(self.by, By::AsIs)
    }

    /// Whether it is a baseline.
    #[must_use]
    pub fn is_baseline(&self) -> bool {
        matches!(self.by, By::Baseline(_))
    }

    /// The command that sets the policy on a cluster; `None` if there is nothing to set.
    #[must_use]
    pub fn to_set(&self) -> Option<Command> {
        let preset = Some(self.text.clone());
        let set = Command::SetPolicy { preset, set: Vec::new(), dry_run: false };
        matches!(self.by, By::Preset(_)).then_some(set)
    }

    /// Plays the jobs of a file under this policy; `look` is called before each event.
    ///
    /// Some policies preempt jobs whatever the terms say: presets with attained GPU time, and some
    /// baselines. Baselines know the run time of each job; of the terms they only use the cost of a
    /// preemption.
    ///
    /// # Errors
    /// The trace can't be read to its end, or the scheduler's plan is invalid.
    pub fn play(
        &self,
        jobs: impl IntoIterator<Item = Result<TraceJob, TraceError>>,
        cluster: Nodes,
        terms: Terms,
        look: &mut Look<'_>,
    ) -> Result<Outcome, PlayError> {
        match &self.by {
            By::AsIs => unreachable!("a file with this policy was refused"),
            By::Preset(policy) => {
                let are_preemptible = terms.are_preemptible || policy.asks_attained();
                let terms = Terms { are_preemptible, ..terms };
                queue::play(jobs, cluster, (**policy).clone(), terms, look)
            }
            By::Baseline(rule) => baseline::play(jobs, cluster, *rule, terms.restart, look),
        }
    }
}

impl FromStr for NamedPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, Some(settings)),
            None => (text, None),
        };
        if text == AS_IS {
            return Ok(Self { text: text.to_owned(), by: By::AsIs });
        }
        let by = match name.parse::<Rule>() {
            Ok(rule) if settings.is_none() => By::Baseline(rule),
            Ok(_) => {
                return Err(format!(
                    "baseline {name} has no settings: write {name}, or a preset with settings, \
                     e.g. fifo:planned_starts=0"
                ));
            }
            Err(_) => By::Preset(Box::new(preset(name, text)?)),
        };
        Ok(Self { text: text.to_owned(), by })
    }
}

fn preset(name: &str, text: &str) -> Result<Policy, String> {
    if !Policy::PRESETS.contains(&name) {
        let shown: String = name.chars().take(40).collect();
        let presets = Policy::PRESETS.join(", ");
        let baselines = Rule::ALL.map(Rule::name).join(", ");
        return Err(format!(
            "there is no policy {shown:?}; presets are {presets}; baselines are {baselines}; a \
             store also has {AS_IS}"
        ));
    }
    Policy::from_preset(text).map_err(|error| error.to_string())
}
