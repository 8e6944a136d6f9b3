//! Groups of jobs in the API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The group that a row of a list stands for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct GroupStatus {
    /// Name of the group.
    pub name: String,
    /// Number of its jobs that match the query and have not ended.
    pub n_jobs: u64,
    /// The same jobs by state; of an array, each element counts.
    pub n_by_state: BTreeMap<String, u64>,
    /// Tasks of these jobs by the GPUs that each requests; of an array, each living element counts.
    #[serde(default)]
    pub n_by_gpus: BTreeMap<String, u64>,
}

impl GroupStatus {
    /// The number of its jobs, and how many are in each state: `3 jobs · 2 pending · 1 running`.
    #[must_use]
    pub fn words(&self) -> String {
        let counts = self.n_by_state.iter().map(|(state, n)| format!(" · {n} {state}"));
        format!("{} jobs{}", self.n_jobs, counts.collect::<String>())
    }

    /// The requested GPUs: `0.5 ×4 + 1`, or `0`.
    #[must_use]
    pub fn gpus_words(&self) -> String {
        let of_gpus = self.n_by_gpus.iter().filter(|(gpus, _)| *gpus != "0");
        let word = |(gpus, n): (&String, &u64)| match n {
            1 => gpus.clone(),
            n => format!("{gpus} ×{n}"),
        };
        let words: Vec<String> = of_gpus.map(word).collect();
        if words.is_empty() { "0".to_owned() } else { words.join(" + ") }
    }
}
