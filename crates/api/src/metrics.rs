//! Figures for Prometheus. Gauges are read from the state when they are asked for; what happened
//! is counted since the server started.

mod dcgm;
mod errors;
mod forecast;
mod running;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use gpool_model::Refusal;
use gpool_wire::device_words::{DEVICE_STATES, device_state_word};
use gpool_wire::metrics::{MetricNames, MetricsParams};
use gpool_wire::{Gpu, Node, NotifyCounts, Quantity, QuotaLoan, QuotaOverview, QuotaRow};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};

use super::asker::NOBODY;
use super::cluster::{all_gpus, all_nodes, notify_counts};
use super::extract::{ApiError, Params};
use super::process::ProcessMetrics;
use super::projects::overview;
use crate::api::Api;
use gpool_insight::lives::settings::Detail;
use gpool_insight::lives::tally::{Labels, Sum};
use gpool_server::fault::internal;
use gpool_server::handle::Age;
use gpool_server::recorder;
use gpool_server::view::View;

/// Shapes of waiting jobs that are looked at for their reason.
const SHAPES_MAX: usize = 1000;

/// How long a text is answered again.
const FRESH: Duration = Duration::from_secs(1);

type Float = Gauge<f64, AtomicU64>;

/// Counts a request by its route, never by its path.
pub(crate) async fn measure(
    State(api): State<Api>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let Some(path) = path else { return next.run(request).await };
    let began = Instant::now();
    let method = request.method().to_string();
    let response = next.run(request).await;
    let route = path.as_str().to_owned();
    let code = response.status().as_u16().to_string();
    let by_route = vec![("route", route.clone()), ("method", method.clone())];
    let by_code = vec![("route", route), ("method", method), ("code", code)];
    api.meters.requests.get_or_create(&by_code).inc();
    api.meters.durations.get_or_create(&by_route).observe(began.elapsed().as_secs_f64());
    response
}

/// Returns metrics in the OpenMetrics text format.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", params(MetricsParams),
    responses(
        (status = 200, description = "OpenMetrics text", body = String,
         content_type = "application/openmetrics-text"),
        (status = 400, description = "A parameter is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Params(params): Params<MetricsParams>,
) -> Result<Response, ApiError> {
    let usual = if api.handle.shared.settings.telemetry.dcgm {
        MetricNames::Dcgm
    } else {
        MetricNames::Gpool
    };
    let names = params.names.unwrap_or(usual);
    // It needs no sign-in, so the text is made for one at a time, and serves all for a moment.
    let mut texts = api.meters.texts.lock().await;
    let text = match texts.get(&names) {
        Some((made_at, text)) if made_at.elapsed() < FRESH => text.clone(),
        _ => {
            let text = Bytes::from(text(&api, names).await?);
            texts.insert(names, (Instant::now(), text.clone()));
            text
        }
    };
    drop(texts);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

/// Makes the text, in a queue of reads that belongs to no user.
async fn text(api: &Api, names: MetricNames) -> Result<String, ApiError> {
    let mut page = MetricsPage { registry: Registry::default() };
    page.server(api);
    let uid = NOBODY;
    page.jobs(api, uid).await?;
    page.forecasts(api);
    let telemetry = &api.handle.shared.settings.telemetry;
    let (nodes, gpus) = (all_nodes(api, uid).await?, all_gpus(api, uid).await?);
    let detail = telemetry.detail.unwrap_or_else(|| Detail::usual(gpus.len()));
    if detail >= Detail::Normal {
        page.projects(&api.handle.look(uid, Age::Last, overview).await?);
    }
    if detail >= Detail::Job {
        page.running(&recorder::look(&api.handle).await?.0.devices, &nodes);
    }
    page.nodes(&nodes);
    page.gpus(&gpus);
    if names == MetricNames::Dcgm {
        page.dcgm(&gpus, &nodes);
    }
    let mut text = String::new();
    encode(&mut text, &page.registry).map_err(internal)?;
    Ok(text)
}

struct MetricsPage {
    registry: Registry,
}

/// Metrics with one value each.
#[derive(Default)]
struct ClusterCounts {
    /// By state.
    jobs: Vec<(&'static str, u64)>,
    /// By the decisive reason and the requested pool.
    waiting: BTreeMap<(&'static str, String), u64>,
    n_submitted: u64,
    n_alerts: u64,
    is_store_writable: bool,
    notifications: NotifyCounts,
}

impl MetricsPage {
    fn add(&mut self, name: &str, help: &str, metric: impl Metric) {
        self.registry.register(name, help, metric);
    }

    /// A number for each set of labels.
    fn numbers(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Float>::default();
        let mut is_empty = true;
        for (labels, value) in rows {
            family.get_or_create(&labels).set(value);
            is_empty = false;
        }
        // An unknown value is absent, never zero.
        if !is_empty {
            self.add(name, help, family);
        }
    }

    /// A number that only grows, for each set of labels.
    fn sums(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = (Labels, f64)>) {
        let family = Family::<Labels, Sum>::default();
        let mut is_empty = true;
        for (labels, value) in rows {
            family.get_or_create(&labels).inc_by(value);
            is_empty = false;
        }
        if !is_empty {
            self.add(name, help, family);
        }
    }

    fn server(&mut self, api: &Api) {
        let info = api.handle.info();
        let build = vec![("version", info.version.to_owned())];
        self.numbers("gpool_build_info", "Version of the server", [(build, 1.0)]);
        let requests = api.meters.requests.clone();
        self.add("gpool_http_requests", "Number of answered requests", requests);
        let durations = api.meters.durations.clone();
        self.add(
            "gpool_http_request_duration_seconds",
            "Time from a request to the start of its answer",
            durations,
        );
        let closed = api.meters.closed_connections.clone();
        let help = "Connections over the network that were closed at once, above a limit";
        self.add("gpool_closed_connections", help, closed);
        let process = ProcessMetrics::now();
        let none = Labels::new;
        let rows = process.resident_bytes.map(|bytes| (none(), float(bytes)));
        self.numbers("process_resident_memory_bytes", "Resident memory of the server", rows);
        let rows = process.virtual_bytes.map(|bytes| (none(), float(bytes)));
        self.numbers("process_virtual_memory_bytes", "Virtual memory of the server", rows);
        let rows = process.n_open_files.map(|n| (none(), float(n)));
        self.numbers("process_open_fds", "Open files of the server", rows);
        let started = float(info.started_at.get()) / 1000.0;
        self.numbers("process_start_time_seconds", "Start time of the server", [(none(), started)]);
        let counter = ConstCounter::new(process.cpu_seconds);
        self.add("process_cpu_seconds", "CPU time of the server", counter);
    }

    async fn jobs(&mut self, api: &Api, uid: u32) -> Result<(), Refusal> {
        let counted = api.handle.look(uid, Age::New, count).await?;
        let rows = counted.jobs.into_iter();
        let rows = rows.map(|(state, n)| (vec![("state", state.to_owned())], float(n)));
        self.numbers("gpool_jobs", "Jobs that have not ended", rows);
        let rows = counted.waiting.into_iter();
        let rows = rows
            .map(|((code, pool), n)| (vec![("reason", code.to_owned()), ("pool", pool)], float(n)));
        self.numbers("gpool_pending_jobs", "Pending jobs by reason and requested pool", rows);
        let submitted = ConstCounter::new(counted.n_submitted);
        self.add(
            "gpool_jobs_submitted",
            "Jobs submitted to this cluster since its creation",
            submitted,
        );
        let alerts = ConstCounter::new(counted.n_alerts);
        self.add(
            "gpool_plan_alerts",
            "Plans that were dropped because they broke an invariant",
            alerts,
        );
        let writable = (Labels::new(), flag(counted.is_store_writable));
        self.numbers("gpool_store_writable", "Whether changes can be stored", [writable]);
        let open = api.handle.shared.listeners.all().into_iter();
        let open = open.map(|(which, is)| (vec![("listener", which.name().to_owned())], flag(is)));
        self.numbers("gpool_listener_open", "Whether a listener of the settings is open", open);
        self.notifications(&counted.notifications);
        let moved = ConstCounter::new(api.feed.n_moved());
        self.add("gpool_jobs_moved", "Moves of running jobs between GPUs of a node", moved);
        api.handle.shared.insight.lives.tally.add_to(&mut self.registry);
        Ok(())
    }

    fn notifications(&mut self, counts: &NotifyCounts) {
        let waiting = (Labels::new(), float(counts.waiting));
        self.numbers(
            "gpool_notifications_waiting",
            "Notifications that wait to be sent",
            [waiting],
        );
        let family = Family::<Labels, Counter>::default();
        for (result, n) in
            [("taken", counts.taken), ("given_up", counts.given_up), ("dropped", counts.dropped)]
        {
            family.get_or_create(&vec![("result", result.to_owned())]).inc_by(n);
        }
        self.add("gpool_notifications", "Notifications by result", family);
    }

    /// Departments include the projects below them, so a label tells them apart from projects.
    fn projects(&mut self, all: &QuotaOverview) {
        let labels = |it: &QuotaRow| {
            let department = it.department.to_string();
            vec![("project", it.project.clone()), ("department", department)]
        };
        let mut each = |name, help, value: &dyn Fn(&QuotaRow) -> Option<f64>| {
            let rows = all.projects.iter();
            let rows = rows.filter_map(|it| Some((labels(it), value(it)?)));
            self.numbers(name, help, rows.collect::<Vec<_>>());
        };
        let sum = |loans: &[QuotaLoan]| loans.iter().fold(0.0, |sum, it| sum + it.gpus);
        each(
            "gpool_project_guaranteed_gpus",
            "Guaranteed GPUs of the project; absent if unlimited",
            &|it| finite(&it.guaranteed),
        );
        each("gpool_project_limit_gpus", "Limit of the project", &|it| {
            it.limit.as_ref().and_then(finite)
        });
        each("gpool_project_share_gpus", "GPUs that the project can have now", &|it| it.share);
        each("gpool_project_weighted_share", "Allocated GPUs divided by the share", &|it| {
            it.share.filter(|share| *share > 0.0).map(|share| it.held / share)
        });
        each("gpool_project_held_gpus", "Allocated GPUs of the project", &|it| Some(it.held));
        each("gpool_project_borrowed_gpus", "Allocated GPUs that the project borrows", &|it| {
            Some(it.on_loan)
        });
        each(
            "gpool_project_lent_gpus",
            "Guaranteed GPUs of the project that others borrow",
            &|it| Some(sum(&it.lends)),
        );
        each(
            "gpool_project_pending_gpus",
            "Requested GPUs of pending jobs of the project",
            &|it| Some(it.pending),
        );
        each("gpool_project_pending_jobs", "Pending jobs of the project", &|it| {
            Some(float(it.n_pending))
        });
        let hour = 3600.0;
        each("gpool_project_used_gpu_seconds", "Decayed usage of the project", &|it| {
            Some(it.used * hour)
        });
    }

    fn nodes(&mut self, nodes: &[Node]) {
        let labels = |node: &Node| vec![("node", node.name.clone())];
        let mut each = |name, help, value: &dyn Fn(&Node) -> f64| {
            self.numbers(name, help, nodes.iter().map(|node| (labels(node), value(node))));
        };
        each("gpool_node_up", "Whether the agent of the node answers", &|node| {
            flag(node.connected)
        });
        each("gpool_node_drained", "Whether the node gets no new jobs", &|node| {
            flag(node.drain.is_some())
        });
        each("gpool_node_cpus", "CPU cores of the node for jobs", &|node| node.cpus);
        each("gpool_node_memory_bytes", "Memory of the node for jobs", &|node| float(node.memory));
        self.node_agents(nodes);
        let info = |node: &Node| {
            let mut labels = labels(node);
            labels.push(("pool", node.pool.clone()));
            labels.push(("version", node.version.clone()));
            labels.push(("system", node.system.clone()));
            labels.push(("devices_from", node.devices_from.clone()));
            (labels, 1.0)
        };
        self.numbers("gpool_node_info", "Properties of the node", nodes.iter().map(info));
    }

    /// Values of agents on other machines.
    fn node_agents(&mut self, nodes: &[Node]) {
        let mut each = |name, help, value: &dyn Fn(&Node) -> Option<f64>| {
            let row = |node: &Node| Some((vec![("node", node.name.clone())], value(node)?));
            self.numbers(name, help, nodes.iter().filter_map(row));
        };
        let help = "Time that the clock of the node is ahead of the server's";
        each("gpool_node_clock_offset_seconds", help, &|node| Some(seconds(node.clock_offset_ms?)));
        each("gpool_node_agent_cpu_ratio", "CPU cores that the agent uses", &|node| {
            Some(node.agent_cpu_percent? / 100.0)
        });
        each("gpool_node_agent_memory_bytes", "Memory that the agent uses", &|node| {
            Some(float(node.agent_memory?))
        });
    }

    fn gpus(&mut self, gpus: &[Gpu]) {
        let mut each = |name, help, value: &dyn Fn(&Gpu) -> Option<f64>| {
            let rows = gpus.iter().filter_map(|gpu| Some((labels(gpu), value(gpu)?)));
            self.numbers(name, help, rows.collect::<Vec<_>>());
        };
        each("gpool_gpu_utilization_ratio", "Fraction of time with a running kernel", &|gpu| {
            gpu.utilization
        });
        each("gpool_gpu_sm_active_ratio", "Fraction of the multiprocessors with work", &|gpu| {
            gpu.detail.sm_active
        });
        each(
            "gpool_gpu_tensor_active_ratio",
            "Fraction of time with active tensor cores",
            &|gpu| gpu.detail.tensor_active,
        );
        each("gpool_gpu_dram_active_ratio", "Fraction of the memory bandwidth in use", &|gpu| {
            gpu.detail.dram_active
        });
        each("gpool_gpu_memory_used_bytes", "GPU memory in use", &|gpu| gpu.memory_used.map(float));
        each("gpool_gpu_memory_total_bytes", "GPU memory", &|gpu| Some(float(gpu.memory_total)));
        each("gpool_gpu_memory_reserved_bytes", "GPU memory of the driver", &|gpu| {
            let rest = gpu.memory_total.checked_sub(gpu.memory_used?)?;
            rest.checked_sub(gpu.memory_free?).map(float)
        });
        each("gpool_gpu_nvlink_bytes_per_second", "Traffic over NVLink", &|gpu| {
            gpu.detail.nvlink.map(float)
        });
        each("gpool_gpu_power_watts", "Power draw of the GPU", &|gpu| gpu.power_w);
        each("gpool_gpu_temperature_celsius", "Temperature of the GPU", &|gpu| {
            gpu.temperature_c.map(f64::from)
        });
        each("gpool_gpu_memory_temperature_celsius", "Temperature of the GPU memory", &|gpu| {
            gpu.detail.memory_temperature_c.map(f64::from)
        });
        each("gpool_gpu_sm_clock_hertz", "Clock of the multiprocessors", &|gpu| {
            gpu.detail.sm_clock_mhz.map(|mhz| f64::from(mhz) * 1e6)
        });
        each("gpool_gpu_memory_lent_bytes", "Memory that jobs use above their requests", &|gpu| {
            Some(gpu.loans.iter().map(|loan| float(loan.memory)).sum())
        });
        each("gpool_gpu_guarantees_late", "Times that requested memory came too late", &|gpu| {
            Some(float(gpu.guarantees_late))
        });
        let energy = gpus.iter().filter_map(|gpu| Some((labels(gpu), gpu.detail.energy_j?)));
        self.sums("gpool_gpu_energy_joules", "Energy since the driver was loaded", energy);
        let capped = gpus.iter().flat_map(|gpu| {
            let by =
                [("power", gpu.detail.power_capped_s), ("thermal", gpu.detail.thermal_capped_s)];
            let row = |(reason, seconds): (&str, Option<f64>)| {
                let mut labels = labels(gpu);
                labels.push(("reason", reason.to_owned()));
                Some((labels, seconds?))
            };
            by.into_iter().filter_map(row).collect::<Vec<_>>()
        });
        self.sums("gpool_gpu_throttle_seconds", "Time with lowered clocks", capped);
        let pcie = gpus.iter().flat_map(|gpu| {
            let by = [("received", gpu.detail.pcie_received), ("sent", gpu.detail.pcie_sent)];
            let row = |(direction, bytes): (&str, Option<u64>)| {
                let mut labels = labels(gpu);
                labels.push(("direction", direction.to_owned()));
                Some((labels, float(bytes?)))
            };
            by.into_iter().filter_map(row).collect::<Vec<_>>()
        });
        self.numbers("gpool_gpu_pcie_bytes_per_second", "Traffic over PCIe", pcie);
        self.gpu_errors(gpus);
        self.gpu_states(gpus);
    }

    /// The state and the properties of each GPU.
    fn gpu_states(&mut self, gpus: &[Gpu]) {
        let states = gpus.iter().flat_map(|gpu| {
            DEVICE_STATES.map(|state| {
                let mut labels = labels(gpu);
                labels.push(("state", device_state_word(state).to_owned()));
                (labels, flag(gpu.state == state))
            })
        });
        self.numbers("gpool_gpu_state", "1 for the current state of the GPU, otherwise 0", states);
        let info = |gpu: &Gpu| {
            let mut labels = labels(gpu);
            labels.push(("model", gpu.model.clone()));
            labels.push(("pci_bus_id", gpu.pci_bus.clone()));
            labels.push(("numa", gpu.numa.map_or_else(String::new, |numa| numa.to_string())));
            labels.push(("mig_profile", dcgm::mig_profile(gpu).unwrap_or_default()));
            (labels, 1.0)
        };
        self.numbers("gpool_gpu_info", "Properties of the GPU", gpus.iter().map(info));
    }
}

fn count(view: &View<'_>) -> ClusterCounts {
    let world = view.world;
    let jobs = world.n_by_state().iter().map(|(state, n_jobs)| (state.as_str(), *n_jobs));
    let explainer = view.explainer();
    let mut counted = ClusterCounts {
        jobs: jobs.collect(),
        n_submitted: world.cluster().n_jobs(),
        n_alerts: view.n_alerts,
        notifications: notify_counts(world),
        is_store_writable: view.store_fault.is_none(),
        ..ClusterCounts::default()
    };
    for (position, (_, queue)) in world.shapes().enumerate() {
        // Jobs of one shape wait for the same.
        let first = queue.escalated.iter().chain(&queue.fresh).next();
        let row = first.and_then(|(_, job)| world.job(*job)).filter(|_| position < SHAPES_MAX);
        let reason = row.and_then(|row| explainer.briefly(row).into_iter().next());
        let code = match (&reason, row) {
            (Some(reason), _) => reason.code(),
            (None, Some(_)) => "starting",
            (None, None) => "other",
        };
        let pool = row.and_then(|row| row.spec.pool.as_ref());
        let pool = pool.map_or_else(|| "any".to_owned(), ToString::to_string);
        *counted.waiting.entry((code, pool)).or_default() += queue.n_jobs();
    }
    counted
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn seconds(millis: i64) -> f64 {
    millis as f64 / 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53, which no figure here reaches")]
fn float(number: u64) -> f64 {
    number as f64
}

fn finite(amount: &Quantity) -> Option<f64> {
    match amount {
        Quantity::Whole(gpus) => Some(float(*gpus)),
        Quantity::Decimal(gpus) => Some(*gpus),
        Quantity::Text(_) => None,
    }
}

fn labels(gpu: &Gpu) -> Labels {
    let index = gpu.index.to_string();
    vec![("node", gpu.node.clone()), ("gpu", index), ("uuid", gpu.uuid.clone())]
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}
