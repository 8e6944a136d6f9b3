//! Settings of metrics and traces.

use std::fmt;
use std::str::FromStr;

/// Settings of metrics and traces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Telemetry {
    /// How many labels metrics have; `None` decides by the number of GPUs.
    pub detail: Option<Detail>,
    /// Whether `/metrics` also has the names of NVIDIA's dcgm-exporter.
    pub dcgm: bool,
    /// The receiver of traces; `None` sends none.
    pub traces: Option<Traces>,
}

/// Where traces go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traces {
    pub to: TraceUrl,
    /// The most spans that wait to be sent; more are dropped.
    pub n_waiting_max: usize,
}

impl Traces {
    #[must_use]
    pub fn to(to: TraceUrl) -> Self {
        Self { to, n_waiting_max: 4096 }
    }
}

/// How many labels metrics have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// No metrics of single projects.
    Low,
    /// Metrics of projects.
    Normal,
    /// Also metrics of running jobs.
    Job,
}

impl Detail {
    /// The largest number of GPUs with metrics of running jobs by default.
    const GPUS_MOST: usize = 200;

    /// The usual detail for this number of GPUs.
    #[must_use]
    pub fn usual(n_gpus: usize) -> Self {
        if n_gpus <= Self::GPUS_MOST { Self::Job } else { Self::Normal }
    }
}

impl FromStr for Detail {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "low" => Ok(Self::Low),
            "normal" => Ok(Self::Normal),
            "job" => Ok(Self::Job),
            _ => Err("it is low, normal or job"),
        }
    }
}

/// An address that takes OpenTelemetry traces as JSON over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceUrl(String);

impl TraceUrl {
    /// The path of traces at a collector.
    const PATH: &str = "/v1/traces";

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TraceUrl {
    type Err = String;

    /// Reads the address of a collector; without a path it gets the usual one.
    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
        let rest = rest.ok_or("it must begin with http:// or https://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || text.chars().any(|it| it.is_whitespace() || it.is_control()) {
            return Err("it has no host, or has spaces".to_owned());
        }
        match path {
            "" => Ok(Self(format!("{}{}", text.trim_end_matches('/'), Self::PATH))),
            _ => Ok(Self(text.to_owned())),
        }
    }
}
