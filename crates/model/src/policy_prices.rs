//! Changes of prices: earlier time keeps its prices.

use std::sync::Arc;

use crate::policy::Policy;
use crate::price::PastPrices;
use crate::unit::Timestamp;

impl Policy {
    /// Records the prices of `before` as those of the time before `now`, if they were replaced. The
    /// first prices of a cluster also apply to the time before them.
    pub fn note_prices(&mut self, before: &Self, now: Timestamp) {
        self.past_prices = before.past_prices.clone();
        let is_first = before.past_prices.is_empty() && before.prices.is_none();
        if self.prices != before.prices && !is_first {
            let past = PastPrices { until: now, prices: before.prices.clone() };
            Arc::make_mut(&mut self.past_prices).push(past);
        }
    }
}
