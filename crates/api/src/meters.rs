//! The counters of requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use gpool_insight::lives::tally::Labels;
use gpool_wire::metrics::MetricNames;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// The counters of requests.
#[derive(Clone)]
pub(crate) struct Meters {
    pub requests: Family<Labels, Counter>,
    pub durations: Family<Labels, Histogram>,
    /// Connections of the network that were closed at once, because their source has too many.
    pub closed_connections: Counter,
    /// The last text for each kind of names, and when it was made.
    pub texts: Arc<tokio::sync::Mutex<BTreeMap<MetricNames, (Instant, Bytes)>>>,
}

impl Default for Meters {
    fn default() -> Self {
        // From 0.1 ms to 13 s.
        let histogram = || Histogram::new(exponential_buckets(0.000_1, 3.25, 11));
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            closed_connections: Counter::default(),
            texts: Arc::default(),
        }
    }
}
