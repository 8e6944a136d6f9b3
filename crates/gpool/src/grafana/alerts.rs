//! Alert rules.

use std::fmt::Write as _;

#[derive(Debug, Clone, Copy)]
pub struct Alert {
    pub name: &'static str,
    /// The condition.
    pub query: &'static str,
    /// How long the condition must hold.
    pub lasts: &'static str,
    /// `critical`: act now; `warning`: look at it.
    pub severity: &'static str,
    pub summary: &'static str,
    /// The next step.
    pub action: &'static str,
}

pub const ALERTS: &[Alert] = &[
    Alert {
        name: "GpoolDown",
        query: "up{job=\"gpool\"} == 0",
        lasts: "2m",
        severity: "critical",
        summary: "the gpool server {{ $labels.instance }} does not answer",
        action: "gpool status, then gpool up; running jobs go on",
    },
    Alert {
        name: "GpoolNodeLost",
        query: "gpool_node_up == 0",
        lasts: "5m",
        severity: "critical",
        summary: "the agent of node {{ $labels.node }} does not answer",
        action: "gpool nodes, gpool doctor on the node",
    },
    Alert {
        name: "GpoolGpuFailed",
        query: "gpool_gpu_state{state=~\"unhealthy|lost\"} == 1",
        lasts: "1m",
        severity: "critical",
        summary: "GPU {{ $labels.gpu }} of node {{ $labels.node }} is {{ $labels.state }}",
        action: "gpool gpus, then gpool drain the GPU",
    },
    Alert {
        name: "GpoolGpuErrors",
        // The numbers are errors of programs. A number has no series before its first error, which
        // `increase` does not see.
        query: "increase(gpool_gpu_xid_errors_total{xid!~\"13|31|43|45|68|109\"}[15m]) > 0 or \
                (gpool_gpu_xid_errors_total{xid!~\"13|31|43|45|68|109\"} unless \
                gpool_gpu_xid_errors_total offset 15m) or \
                increase(gpool_gpu_ecc_errors_total{type=\"uncorrected\"}[15m]) > 0 or \
                gpool_gpu_row_remap_failure == 1",
        lasts: "0m",
        severity: "warning",
        summary: "GPU {{ $labels.gpu }} of node {{ $labels.node }} reports \
                  {{ with $labels.xid }}Xid {{ . }}{{ else }}memory errors{{ end }}",
        action: "gpool gpus shows it; reset the GPU once no job uses it, and replace it if errors \
                 come back",
    },
    Alert {
        name: "GpoolGpuHeldIdle",
        query: "gpool_gpu_state{state=\"held_idle\"} == 1",
        lasts: "30m",
        severity: "warning",
        summary: "a job holds GPU {{ $labels.gpu }} of node {{ $labels.node }} and does not use it",
        action: "gpool waste",
    },
    Alert {
        name: "GpoolLongWaits",
        query: "sum(gpool_gpu_state{state=\"free\"}) == 0 and \
                histogram_quantile(0.9, sum(rate(gpool_wait_seconds_bucket[1h])) by (le)) > 14400",
        lasts: "30m",
        severity: "warning",
        summary: "no GPU is free, and 1 of 10 jobs waits more than 4 hours",
        action: "gpool queue, gpool waste",
    },
    Alert {
        name: "GpoolForecastsWrong",
        query: "gpool_eta_coverage_ratio{quantile=\"0.9\"} < 0.8",
        lasts: "1h",
        severity: "warning",
        summary: "only {{ $value | humanizePercentage }} of jobs start by their forecast p90",
        action: "gpool status",
    },
    Alert {
        name: "GpoolNotificationsStuck",
        query: "gpool_notifications_waiting > 20 and delta(gpool_notifications_waiting[15m]) > 0",
        lasts: "15m",
        severity: "warning",
        summary: "{{ $value }} notifications wait, and more come",
        action: "gpool notify",
    },
    Alert {
        name: "GpoolStoreSlow",
        query: "histogram_quantile(0.99, \
                sum(rate(gpool_store_write_seconds_bucket[5m])) by (le, instance)) > 1",
        lasts: "10m",
        severity: "warning",
        summary: "1 of 100 commits takes more than a second",
        action: "check the disk of the state folder",
    },
    Alert {
        name: "GpoolStoreNotWritable",
        query: "gpool_store_writable == 0",
        lasts: "1m",
        severity: "critical",
        summary: "the server can't store changes: no job starts",
        action: "gpool status shows why, often a full disk",
    },
    Alert {
        name: "GpoolListenerClosed",
        query: "gpool_listener_open == 0",
        lasts: "2m",
        severity: "warning",
        summary: "the server can't open its listener for the {{ $labels.listener }}",
        action: "gpool doctor shows why, often another process at its port",
    },
    Alert {
        name: "GpoolPlanRejected",
        query: "increase(gpool_plan_alerts_total[1h]) > 0",
        lasts: "0m",
        severity: "warning",
        summary: "the scheduler made a plan that broke an invariant; it was not applied",
        action: "gpool debug dump, and report it",
    },
];

/// The file of the alert rules.
#[must_use]
pub fn rules() -> String {
    let mut text = String::from("groups:\n  - name: gpool\n    rules:\n");
    for alert in ALERTS {
        let Alert { name, query, lasts, severity, summary, action } = *alert;
        // A JSON string is also one of YAML.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (query, summary, action) = (quoted(query), quoted(summary), quoted(action));
        let written = write!(
            text,
            "      - alert: {name}\n        expr: {query}\n        for: {lasts}\n        \
             labels:\n          severity: {severity}\n        annotations:\n          \
             summary: {summary}\n          action: {action}\n",
        );
        written.expect("text takes all");
    }
    text
}
