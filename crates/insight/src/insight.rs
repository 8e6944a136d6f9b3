//! What a server knows of the past.

use std::sync::Arc;

use crate::forecaster::Forecaster;
use crate::lives::Lives;
use crate::usage::UsageHistory;

pub struct Insight {
    pub usage: Arc<UsageHistory>,
    pub forecaster: Arc<Forecaster>,
    /// Counters and traces of jobs.
    pub lives: Arc<Lives>,
}
