//! A sweep as a user describes it.

use gpool_model::Objective;

use crate::fault::Fault;
use crate::parameter::{Parameter, n_combinations};

/// How the values of the next trial are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Every combination of the values.
    Grid,
    /// Each trial is drawn independently of the others.
    Random,
    /// By the results of the trials so far: Optuna's tree-structured Parzen estimator.
    Bayes,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::Grid, Self::Random, Self::Bayes];

    /// Returns its name in flags and files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grid => "grid",
            Self::Random => "random",
            Self::Bayes => "bayes",
        }
    }

    /// Reads a name. `bayesian` and `tpe` also mean [`Method::Bayes`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "bayesian" | "tpe" => Some(Self::Bayes),
            text => Self::ALL.into_iter().find(|method| method.as_str() == text),
        }
    }
}

/// Which trials are ended early because their results so far are bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EarlyStop {
    /// Trials below the median of the others at the same step.
    Median,
    /// Asynchronous successive halving (ASHA): of each `factor` trials that reach `min_steps`,
    /// one goes on, then again after `factor` times as many steps.
    Asha {
        /// Steps before a trial can end early.
        min_steps: u32,
        /// One of this number of trials goes on.
        factor: u32,
    },
    /// Several brackets of successive halving with different `min_steps` (Hyperband).
    Hyperband {
        /// Steps before a trial of the first bracket can end early.
        min_steps: u32,
        /// Steps of a whole trial; `None` means as many as the first trials have.
        max_steps: Option<u32>,
        /// One of this number of trials goes on.
        factor: u32,
    },
}

impl EarlyStop {
    /// Words of flags, with the defaults of Optuna's pruners.
    pub const WORDS: [&str; 3] = ["median", "asha", "hyperband"];

    /// Reads `median`, `asha` or `hyperband`, optionally with steps and factor: `asha:10:3`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let mut number = |usual: u32, least: u32| match parts.next().map(str::parse) {
            None => Ok(usual),
            Some(Ok(number)) if number >= least => Ok(number),
            _ => Err(format!("{text:?}: write the steps and the factor as in {kind}:10:3")),
        };
        let found = match kind {
            "median" => Self::Median,
            "asha" => Self::Asha { min_steps: number(1, 1)?, factor: number(4, 2)? },
            "hyperband" | "halving" => {
                let (min_steps, factor) = (number(1, 1)?, number(3, 2)?);
                Self::Hyperband { min_steps, max_steps: None, factor }
            }
            _ => return Err(format!("{text:?} is none of {}", Self::WORDS.join(", "))),
        };
        match parts.next() {
            None => Ok(found),
            Some(rest) => Err(format!("{text:?}: {rest:?} is one part too many")),
        }
    }
}

/// A sweep as a user describes it, without the job that runs a trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sweep {
    /// Its name.
    pub name: Option<String>,
    /// How the values of trials are chosen; `None` is the default of the parameters.
    pub method: Option<Method>,
    /// The metric that tells which trial is the best.
    pub objective: Option<Objective>,
    /// The parameters, in order. Their names differ.
    pub parameters: Vec<Parameter>,
    /// The most trials.
    pub n_trials: Option<u32>,
    /// Which trials end early.
    pub early_stop: Option<EarlyStop>,
    /// The command of a trial with placeholders.
    pub command: Vec<String>,
}

impl Sweep {
    /// Returns the method: without one, a grid if all parameters have a list of values and no
    /// number of trials is set, otherwise random draws.
    #[must_use]
    pub fn method(&self) -> Method {
        let is_grid = || {
            let mut parameters = self.parameters.iter();
            self.n_trials.is_none() && parameters.all(|it| it.domain.values().is_some())
        };
        self.method.unwrap_or_else(|| if is_grid() { Method::Grid } else { Method::Random })
    }

    /// Whether the next trial depends on the results of others, so that a driver must choose it.
    #[must_use]
    pub fn needs_driver(&self) -> bool {
        self.method() == Method::Bayes || self.early_stop.is_some()
    }

    /// Checks what no single parameter shows.
    ///
    /// # Errors
    /// There are no parameters, two have one name, or the method lacks something.
    pub fn check(&self) -> Result<(), Fault> {
        if self.parameters.is_empty() {
            let advice = "--param lr=1e-5..1e-1:log --param bs=16,32,64";
            return Err(Fault::new("the sweep has no parameters", advice));
        }
        for (at, parameter) in self.parameters.iter().enumerate() {
            let name = &parameter.name;
            if self.parameters[..at].iter().any(|other| other.name == *name) {
                let what = format!("the parameter {name:?} is there twice");
                return Err(Fault::new(what, format!("--param {name}=VALUE,VALUE")));
            }
        }
        let method = self.method();
        if method != Method::Grid && self.n_trials.is_none() {
            let what = format!("the method {} needs a number of trials", method.as_str());
            return Err(Fault::new(what, "--trials 50"));
        }
        if self.needs_driver() && self.objective.is_none() {
            let what = match self.early_stop {
                Some(_) => "early stopping needs a metric".to_owned(),
                None => format!("the method {} needs a metric", method.as_str()),
            };
            return Err(Fault::new(what, "--metric loss:min"));
        }
        if method == Method::Grid {
            n_combinations(&self.parameters)?;
        }
        Ok(())
    }
}
