//! The panels of all dashboards.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Board {
    /// Nodes and GPUs.
    Fleet,
    /// Queue, decisions and the server itself.
    Scheduler,
    /// Quotas and use of projects.
    Project,
}

impl Board {
    pub const ALL: [Self; 3] = [Self::Fleet, Self::Scheduler, Self::Project];

    /// The permanent identifier, also the name of the file.
    #[must_use]
    pub fn uid(self) -> &'static str {
        match self {
            Self::Fleet => "gpool-fleet",
            Self::Scheduler => "gpool-scheduler",
            Self::Project => "gpool-project",
        }
    }

    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Fleet => "gpool: fleet",
            Self::Scheduler => "gpool: scheduler",
            Self::Project => "gpool: projects",
        }
    }

    /// The variable that its panels are limited by, with the query of its values.
    #[must_use]
    pub fn variable(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Fleet => Some(("node", "label_values(gpool_node_up, node)")),
            Self::Scheduler => None,
            Self::Project => Some(("project", "label_values(gpool_project_held_gpus, project)")),
        }
    }
}

/// A query of a panel: the expression, and the legend of its lines.
pub type Query = (&'static str, &'static str);

#[derive(Debug, Clone, Copy)]
pub struct Panel {
    pub board: Board,
    pub title: &'static str,
    /// The unit, as Grafana names it.
    pub unit: &'static str,
    pub queries: &'static [Query],
    /// When the queries have no data, if a healthy cluster may have none.
    pub empty_when: Option<&'static str>,
}

const fn panel(
    board: Board,
    title: &'static str,
    unit: &'static str,
    queries: &'static [Query],
) -> Panel {
    Panel { board, title, unit, queries, empty_when: None }
}

const fn rare(panel: Panel, empty_when: &'static str) -> Panel {
    Panel { empty_when: Some(empty_when), ..panel }
}

use Board::{Fleet, Project, Scheduler};

const DRIVER: &str = "the devices are simulated: only NVIDIA's driver reports these";

/// Every panel, in the order of the dashboards.
pub const PANELS: &[Panel] = &[
    panel(
        Fleet,
        "GPUs by state",
        "short",
        &[("sum by (state) (gpool_gpu_state{node=~\"$node\"})", "{{state}}")],
    ),
    panel(
        Fleet,
        "Nodes",
        "short",
        &[
            ("sum(gpool_node_up{node=~\"$node\"})", "up"),
            ("sum(gpool_node_drained{node=~\"$node\"})", "drained"),
        ],
    ),
    panel(
        Fleet,
        "GPU utilization",
        "percentunit",
        &[("avg by (node) (gpool_gpu_utilization_ratio{node=~\"$node\"})", "{{node}}")],
    ),
    panel(
        Fleet,
        "GPU memory in use",
        "percentunit",
        &[(
            "sum by (node) (gpool_gpu_memory_used_bytes{node=~\"$node\"}) \
             / sum by (node) (gpool_gpu_memory_total_bytes{node=~\"$node\"})",
            "{{node}}",
        )],
    ),
    rare(
        panel(
            Fleet,
            "Multiprocessors and tensor cores",
            "percentunit",
            &[
                ("avg(gpool_gpu_sm_active_ratio{node=~\"$node\"})", "multiprocessors"),
                ("avg(gpool_gpu_tensor_active_ratio{node=~\"$node\"})", "tensor cores"),
                ("avg(gpool_gpu_dram_active_ratio{node=~\"$node\"})", "memory"),
            ],
        ),
        DRIVER,
    ),
    panel(
        Fleet,
        "Power",
        "watt",
        &[("sum by (node) (gpool_gpu_power_watts{node=~\"$node\"})", "{{node}}")],
    ),
    panel(
        Fleet,
        "Hottest GPU",
        "celsius",
        &[("max by (node) (gpool_gpu_temperature_celsius{node=~\"$node\"})", "{{node}}")],
    ),
    rare(
        panel(
            Fleet,
            "Time with lowered clocks",
            "percentunit",
            &[(
                "sum by (node, reason) \
                 (rate(gpool_gpu_throttle_seconds_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}} {{reason}}",
            )],
        ),
        DRIVER,
    ),
    rare(
        panel(
            Fleet,
            "Traffic of PCIe and NVLink",
            "Bps",
            &[
                (
                    "sum by (node) (gpool_gpu_pcie_bytes_per_second{node=~\"$node\"})",
                    "{{node}} PCIe",
                ),
                (
                    "sum by (node) (gpool_gpu_nvlink_bytes_per_second{node=~\"$node\"})",
                    "{{node}} NVLink",
                ),
            ],
        ),
        DRIVER,
    ),
    rare(
        panel(
            Fleet,
            "Errors of GPUs in an hour",
            "short",
            &[
                (
                    "sum by (node, gpu, xid) \
                     (increase(gpool_gpu_xid_errors_total{node=~\"$node\"}[1h]))",
                    "{{node}} GPU {{gpu}} Xid {{xid}}",
                ),
                (
                    "sum by (node, gpu, type) \
                     (increase(gpool_gpu_ecc_errors_total{node=~\"$node\"}[1h]))",
                    "{{node}} GPU {{gpu}} {{type}} memory errors",
                ),
            ],
        ),
        DRIVER,
    ),
    panel(Scheduler, "Jobs by state", "short", &[("sum by (state) (gpool_jobs)", "{{state}}")]),
    panel(
        Scheduler,
        "Pending jobs by reason",
        "short",
        &[("sum by (reason) (gpool_pending_jobs)", "{{reason}}")],
    ),
    panel(
        Scheduler,
        "Submitted, started and ended jobs",
        "ops",
        &[
            ("rate(gpool_jobs_submitted_total[$__rate_interval])", "submitted"),
            ("sum(rate(gpool_jobs_started_total[$__rate_interval]))", "started"),
            ("sum by (result) (rate(gpool_jobs_finished_total[$__rate_interval]))", "{{result}}"),
        ],
    ),
    panel(
        Scheduler,
        "Waiting time, 9 of 10 jobs",
        "s",
        &[(
            "histogram_quantile(0.9, \
             sum by (le, size_class) (rate(gpool_wait_seconds_bucket[$__rate_interval])))",
            "{{size_class}} GPUs",
        )],
    ),
    panel(
        Scheduler,
        "From decision to start, 99 of 100 jobs",
        "s",
        &[(
            "histogram_quantile(0.99, \
             sum by (le) (rate(gpool_start_latency_seconds_bucket[$__rate_interval])))",
            "start",
        )],
    ),
    panel(
        Scheduler,
        "Decisions",
        "ops",
        &[("sum by (kind) (rate(gpool_decisions_total[$__rate_interval]))", "{{kind}}")],
    ),
    rare(
        panel(
            Scheduler,
            "Evictions, pauses and new attempts",
            "ops",
            &[
                (
                    "sum by (reason) (rate(gpool_jobs_evicted_total[$__rate_interval]))",
                    "evicted: {{reason}}",
                ),
                (
                    "sum by (reason) (rate(gpool_jobs_paused_total[$__rate_interval]))",
                    "paused: {{reason}}",
                ),
                (
                    "sum by (why) (rate(gpool_jobs_retried_total[$__rate_interval]))",
                    "again: {{why}}",
                ),
            ],
        ),
        "no job was evicted, paused or retried since the server started",
    ),
    rare(
        panel(
            Scheduler,
            "Forecasts that held",
            "percentunit",
            &[("gpool_eta_coverage_ratio", "started by the {{quantile}} quantile")],
        ),
        "no job with a forecast has started yet",
    ),
    panel(
        Scheduler,
        "Core and store, 99 of 100 steps",
        "s",
        &[
            (
                "histogram_quantile(0.99, \
                 sum by (le) (rate(gpool_step_seconds_bucket[$__rate_interval])))",
                "step of the core",
            ),
            (
                "histogram_quantile(0.99, \
                 sum by (le) (rate(gpool_store_write_seconds_bucket[$__rate_interval])))",
                "commit",
            ),
            ("gpool_events_lag_seconds", "oldest unpublished change"),
        ],
    ),
    panel(
        Scheduler,
        "Requests",
        "reqps",
        &[("sum by (code) (rate(gpool_http_requests_total[$__rate_interval]))", "{{code}}")],
    ),
    panel(
        Scheduler,
        "Server",
        "short",
        &[
            ("gpool_notifications_waiting", "unsent notifications"),
            ("gpool_plan_alerts_total", "rejected plans"),
            ("gpool_store_writable", "store is writable"),
        ],
    ),
    panel(
        Project,
        "Allocated GPUs",
        "short",
        &[("gpool_project_held_gpus{project=~\"$project\", department=\"false\"}", "{{project}}")],
    ),
    rare(
        panel(
            Project,
            "Guaranteed GPUs",
            "short",
            &[("gpool_project_guaranteed_gpus{project=~\"$project\"}", "{{project}}")],
        ),
        "no project has a limited guarantee",
    ),
    panel(
        Project,
        "Borrowed and lent GPUs",
        "short",
        &[
            ("gpool_project_borrowed_gpus{project=~\"$project\"}", "{{project}} borrows"),
            ("gpool_project_lent_gpus{project=~\"$project\"}", "{{project}} lends"),
        ],
    ),
    panel(
        Project,
        "Pending jobs and their GPUs",
        "short",
        &[
            ("gpool_project_pending_jobs{project=~\"$project\"}", "{{project}} jobs"),
            ("gpool_project_pending_gpus{project=~\"$project\"}", "{{project}} GPUs"),
        ],
    ),
    panel(
        Project,
        "Busy part of the allocated GPU time",
        "percentunit",
        &[(
            "sum by (project) \
             (rate(gpool_gpu_busy_seconds_total{project=~\"$project\"}[$__rate_interval])) \
             / sum by (project) \
             (rate(gpool_gpu_held_seconds_total{project=~\"$project\"}[$__rate_interval]))",
            "{{project}}",
        )],
    ),
    panel(
        Project,
        "Allocated GPUs without work",
        "short",
        &[(
            "sum by (project, kind) \
             (rate(gpool_gpu_idle_held_seconds_total{project=~\"$project\"}[$__rate_interval]))",
            "{{project}} {{kind}}",
        )],
    ),
    rare(
        panel(
            Project,
            "Cost of GPU time an hour",
            "short",
            &[(
                "3600 * sum by (project, currency) \
                 (rate(gpool_cost_total{project=~\"$project\"}[$__rate_interval]))",
                "{{project}} {{currency}}",
            )],
        ),
        "no GPU has a price",
    ),
    panel(
        Project,
        "Waiting time, 9 of 10 jobs",
        "s",
        &[(
            "histogram_quantile(0.9, sum by (le, project) \
             (rate(gpool_wait_seconds_bucket{project=~\"$project\"}[$__rate_interval])))",
            "{{project}}",
        )],
    ),
    panel(
        Project,
        "Utilization of running jobs",
        "percentunit",
        &[(
            "max by (job_id, user, project) (gpool_job_info{project=~\"$project\"}) \
             * on (job_id) group_left () gpool_job_gpu_utilization_ratio",
            "{{job_id}} {{user}}",
        )],
    ),
];
