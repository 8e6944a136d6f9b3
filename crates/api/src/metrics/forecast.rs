//! How well forecasts hold, what the core waits for, and the numbers of traces.

use std::collections::BTreeMap;

use gpool_wire::Calibration;

use super::{Labels, MetricsPage, float};
use crate::api::Api;

impl MetricsPage {
    pub(super) fn forecasts(&mut self, api: &Api) {
        let shared = &api.handle.shared;
        let state = shared.insight.forecaster.state();
        let sum = |of: fn(&Calibration) -> f64| state.calibration.iter().map(of).sum::<f64>();
        let n_started = sum(|it| float(it.n));
        let coverage =
            |quantile: &str, n: f64| (vec![("quantile", quantile.to_owned())], n / n_started);
        let rows = [
            coverage("0.5", sum(|it| float(it.n_by_p50))),
            coverage("0.9", sum(|it| float(it.n_by_p90))),
        ];
        let rows = rows.into_iter().filter(|_| n_started > 0.0);
        let help = "Fraction of jobs that started at or before this quantile of their forecast";
        self.numbers("gpool_eta_coverage_ratio", help, rows);
        let bias = sum(|it| it.bias_s * float(it.n)) / n_started;
        let rows = (n_started > 0.0).then(|| (Labels::new(), bias));
        let help = "Mean time from the forecast median to the start of a job";
        self.numbers("gpool_eta_error_seconds", help, rows);
        let horizon = state.as_of.zip(state.horizon).map(|(as_of, horizon)| {
            (Labels::new(), float(horizon.0.since(as_of.0).get()) / 1000.0)
        });
        let help = "Time that the last forecast looks ahead";
        self.numbers("gpool_plan_horizon_seconds", help, horizon);
        let lag = float(shared.pulse.liveness().store_ms) / 1000.0;
        let help = "Age of the oldest change that is not durable and so not published";
        self.numbers("gpool_events_lag_seconds", help, [(Labels::new(), lag)]);
        let counts =
            shared.insight.lives.tracer.as_ref().map(gpool_insight::lives::trace::Tracer::counts);
        let rows = BTreeMap::from(counts.unwrap_or_default()).into_iter();
        let rows = rows.filter(|_| counts.is_some());
        let rows = rows.map(|(result, n)| (vec![("result", result.to_owned())], float(n)));
        self.sums("gpool_trace_spans", "Spans of traces by result", rows);
    }
}
