//! Query parameters of the metrics.

use serde::Deserialize;
use utoipa::IntoParams;

/// Query parameters of the metrics.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MetricsParams {
    /// `dcgm` adds the GPU metrics under the names of NVIDIA's dcgm-exporter, `gpool` leaves them
    /// out. By default the server's setting `metrics_names` decides.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    pub names: Option<MetricNames>,
}

/// Names of GPU metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricNames {
    /// Only gpool's own names.
    #[default]
    Gpool,
    /// Also those of dcgm-exporter.
    Dcgm,
}
