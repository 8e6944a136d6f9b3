//! What would come of changes that nobody has made.

use gpool_model::{Millis, Refusal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::check;
use crate::time::Time;

/// What is supposed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"if": ["project red guaranteed=8", "drain n3"], "for": "2h"}))]
pub struct SimulateAsk {
    /// What is otherwise, in words, one after the other; nothing says what comes of things as
    /// they are.
    #[serde(rename = "if", skip_serializing_if = "Vec::is_empty")]
    pub supposed: Vec<String>,
    /// How far things are followed; without, as they would settle now.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Written>,
}

impl SimulateAsk {
    /// How far things are followed, if that is said.
    ///
    /// # Errors
    /// If it is no time, or more than two days.
    pub fn horizon(&self) -> Result<Option<Millis>, Refusal> {
        let Some(written) = &self.horizon else { return Ok(None) };
        let horizon = check::span("for", written)?;
        if horizon.is_zero() || horizon > Self::HORIZON_MAX {
            return Err(check::invalid(
                "for",
                "things are followed for up to 48h; 2h, for example",
            ));
        }
        Ok(Some(horizon))
    }

    const HORIZON_MAX: Millis = Millis::from_hours(48);
}

/// What would come of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Simulation {
    /// The moment that it begins with.
    pub as_of: Time,
    /// As far as things are followed; `null` if only what would come of them now.
    pub until: Option<Time>,
    /// What was supposed, as it was written.
    #[serde(rename = "if")]
    pub supposed: Vec<String>,
    /// Jobs that are touched: without anything supposed those that start, are taken back or wait,
    /// else those of which more becomes otherwise.
    pub jobs: Vec<SimulatedJob>,
    /// How many jobs are touched; those that are named may be fewer.
    pub n_touched: u64,
    /// Every project, departments before what is below them.
    pub projects: Vec<SimulatedProject>,
    /// Jobs that wait behind those that are looked at.
    pub n_beyond: u64,
}

/// A job that is touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedJob {
    /// Which; one that is not there yet has the number that it would get.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Who is charged.
    pub project: String,
    /// GPUs as they were asked for.
    pub gpus: String,
    /// What becomes of it: `starts`, `sooner`, `later`, `waits`, `taken_back`, `stopped`, `kept`,
    /// `ends`, `held`.
    pub what: String,
    /// As things are; `null` of a job that is not there yet.
    pub before: Option<SimulatedFate>,
    /// With what is supposed.
    pub after: SimulatedFate,
    /// Why it waits then, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What becomes of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedFate {
    /// `runs`, `starts`, `taken_back`, `stopped`, `waits`, `ends` or `held`.
    pub is: String,
    /// When.
    pub at: Option<Time>,
}

/// A project before and after; amounts in GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedProject {
    /// Which.
    pub project: String,
    /// As things are.
    pub before: SimulatedShare,
    /// With what is supposed.
    pub after: SimulatedShare,
}

/// What a project may have and has, in GPUs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SimulatedShare {
    /// What it is guaranteed, as far as it can be kept; `null` is everything.
    pub guaranteed: Option<f64>,
    /// What it may have; `null` where nothing is shared between projects.
    pub share: Option<f64>,
    /// What it holds.
    pub held: f64,
}
