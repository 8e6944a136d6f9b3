//! The cost of GPU time and energy, by the prices of their time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::usage::UsageRow;

/// GPU time of one group with its cost. Rows with time before and after a change of the currency
/// are separate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CostRow {
    /// The GPU time.
    #[serde(flatten)]
    pub usage: UsageRow,
    /// The cost.
    #[serde(flatten)]
    pub cost: Cost,
}

/// The cost of GPU time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Cost {
    /// The currency; empty if no prices were set.
    pub currency: String,
    /// Cost of allocated time, and of energy if it has a price.
    pub cost: f64,
    /// Cost of allocated time without running kernels; `null` if it was not measured.
    pub idle_cost: Option<f64>,
    /// Cost of energy; `null` if it has no price or was not measured.
    pub energy_cost: Option<f64>,
    /// Price of the requested GPUs for the time that jobs waited for capacity. It is not in the
    /// cost.
    pub waited_cost: f64,
    /// Allocated time of GPUs without a price.
    pub unpriced_gpu_hours: f64,
}

impl Cost {
    /// The cost in one line: `3.20 EUR · idle 0.80 · energy 0.20 · waited for 1.10`.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { currency, cost, idle_cost, energy_cost, waited_cost, .. } = self;
        let mut text = format!("{cost:.2} {currency}");
        let parts =
            [("idle", *idle_cost), ("energy", *energy_cost), ("waited for", Some(*waited_cost))];
        for (word, part) in parts {
            if let Some(part) = part.filter(|part| *part >= 0.005) {
                text.push_str(&format!(" · {word} {part:.2}"));
            }
        }
        text
    }
}
