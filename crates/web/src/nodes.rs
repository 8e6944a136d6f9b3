//! Nodes: their GPUs, health, drain state and enforcement.

use askama::Template;
use gpool_model::device::DeviceState;
use gpool_wire::{Gpu, Node, Time};

use crate::frame::Frame;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::{gib, percent, span, state, style, until};

/// The contents of the page of nodes.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    pub frame: Frame<'a>,
    pub nodes: &'a [Node],
    pub gpus: &'a [Gpu],
    /// The order of the tables of devices.
    pub order: Order<'a>,
    pub now: Time,
}

/// Whether a reservation keeps a free device for some jobs.
pub(crate) fn is_reserved(gpu: &Gpu) -> bool {
    gpu.state == DeviceState::Free && gpu.reservations.iter().any(|it| it.active)
}

pub(crate) struct DeviceRow {
    pub name: String,
    pub model: String,
    pub style: &'static str,
    pub state: String,
    pub utilization: Option<u32>,
    pub memory: String,
    /// Power and temperature.
    pub power: String,
    pub jobs: Vec<(String, String)>,
    /// Problems, and limits of enforcement.
    pub note: String,
    /// Why a device that is still in use gets no more jobs.
    pub drained: String,
}

#[derive(Template)]
#[template(path = "part/gpus.html")]
pub(crate) struct Gpus {
    devices: Vec<DeviceRow>,
    heads: Vec<ColumnHeading>,
}

impl Gpus {
    /// The first devices in an order of the user; `page` is the address of the table.
    pub fn new(
        mut gpus: Vec<&Gpu>,
        n_most: usize,
        now: Time,
        (order, page): (Order<'_>, &str),
    ) -> Self {
        order.sort(&COLUMNS, &mut gpus, |gpu| *gpu);
        let heads = order.heads(&COLUMNS, page);
        Self { devices: gpus.into_iter().take(n_most).map(|gpu| device(gpu, now)).collect(), heads }
    }
}

const COLUMNS: [Column<Gpu>; 7] = [
    Column("GPU", "gpu", By::Text(|gpu| format!("{} {:09}", gpu.node, gpu.index))),
    Column("Model", "model", By::Text(|gpu| gpu.model_short.clone())),
    Column("State", "state", By::Text(|gpu| state(gpu.state).to_owned())),
    Column("Use", "use", By::Number(|gpu| gpu.utilization.unwrap_or(-1.0))),
    Column("Memory", "memory", By::Number(memory)),
    Column("Power", "power", By::Number(|gpu| gpu.power_w.unwrap_or(-1.0))),
    Column("Jobs", "user", By::Text(|gpu| gpu.user.clone().unwrap_or_default())),
];

/// The used memory, in bytes; below 0 if it is not known.
#[expect(clippy::cast_precision_loss, reason = "an order of GPUs")]
fn memory(gpu: &Gpu) -> f64 {
    gpu.memory_used.map_or(-1.0, |used| used as f64)
}

/// The keys of orders that a table of devices can have.
#[must_use]
pub fn gpu_orders() -> Vec<&'static str> {
    keys(&COLUMNS)
}

struct Card<'a> {
    node: &'a Node,
    rows: Vec<(&'static str, String)>,
    drain: String,
    gpus: Gpus,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage<'a> {
    frame: Frame<'a>,
    cards: Vec<Card<'a>>,
}

impl Nodes<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let cards = self.nodes.iter().map(|node| self.card(node)).collect();
        render(&NodesPage { frame: self.frame, cards })
    }

    fn card<'n>(&self, node: &'n Node) -> Card<'n> {
        let own: Vec<&Gpu> = self.gpus.iter().filter(|gpu| gpu.node == node.name).collect();
        let levels = own.first().map(|gpu| &gpu.enforcement);
        let rows = [
            ("Pool", Some(node.pool.clone())),
            ("Devices", Some(node.devices_from.clone())),
            ("GPUs", Some(format!("{} of {} free", node.n_gpus_free, node.n_gpus))),
            ("CPU cores", Some(format!("{} of {} reserved", node.cpus_used, node.cpus))),
            ("Memory", Some(format!("{} of {} reserved", gib(node.memory_used), gib(node.memory)))),
            ("Tasks", Some(format!("{} of {}", node.tasks_used, node.tasks))),
            (
                "Enforcement",
                levels.map(|it| format!("whole GPUs {}, shares {}", it.whole, it.share)),
            ),
            ("Labels", Some(node.labels.join(", ")).filter(|it| !it.is_empty())),
            ("System", Some(node.system.clone())),
            ("Agent", Some(agent(node))),
            ("Refused", node.agent_refusal.clone()),
        ];
        Card {
            node,
            rows: rows.into_iter().filter_map(|(label, text)| Some((label, text?))).collect(),
            drain: node.drain.as_ref().map_or_else(String::new, |drain| {
                format!("Drained by {}: {}", drain.who, drain.reason)
            }),
            gpus: Gpus::new(own, usize::MAX, self.now, (self.order, "/nodes")),
        }
    }
}

/// The version of the agent; for one of another machine, also its use of CPU and its clock.
fn agent(node: &Node) -> String {
    let cpu = node.agent_cpu_percent.map(|it| format!(", {it:.1} % of a core"));
    let clock = node.clock_offset_ms.map(|it| format!(", clock {it:+} ms"));
    [Some(node.version.clone()), cpu, clock].into_iter().flatten().collect()
}

fn device(gpu: &Gpu, now: Time) -> DeviceRow {
    let mut jobs: Vec<(String, String)> =
        gpu.shares.iter().map(|share| (share.job.clone(), share.user.clone())).collect();
    if jobs.is_empty()
        && let Some(job) = &gpu.job
    {
        jobs.push((job.clone(), gpu.user.clone().unwrap_or_default()));
    }
    let idle = gpu.idle.iter().map(|idle| until(now, idle.since)).max();
    let state = match idle.filter(|_| gpu.state == DeviceState::HeldIdle) {
        Some(seconds) => format!("held idle for {}", span(seconds)),
        None if is_reserved(gpu) => "reserved".to_owned(),
        None => state(gpu.state).to_owned(),
    };
    let reserved = gpu.reservations.iter().filter(|it| it.active).map(|it| {
        let whom =
            it.beneficiary.as_ref().map(|name| format!("for {} {name}", it.beneficiary_kind));
        format!("{} {}", it.name, whom.unwrap_or_else(|| "for maintenance".to_owned()))
    });
    let memory = match gpu.memory_used {
        Some(used) => format!("{} of {}", gib(used), gib(gpu.memory_total)),
        None => gib(gpu.memory_total),
    };
    let power = gpu.power_w.map(|watts| format!("{watts:.0} W"));
    let temperature = gpu.temperature_c.map(|celsius| format!("{celsius} °C"));
    let health = gpu.health_why.clone();
    let is_new = |error: &String| health.as_ref().is_none_or(|why| !why.contains(error));
    let errors: Vec<String> = gpu.detail.errors.in_words().into_iter().filter(is_new).collect();
    let outside = gpu.unmanaged.iter().map(|it| {
        let name = it.name.as_deref().unwrap_or("a process");
        let user = it.user.as_deref().map(|user| format!(" of {user}")).unwrap_or_default();
        format!("by {name}{user}")
    });
    let drain = gpu.drain.as_ref().map(|drain| drain.reason.clone());
    let (drained, drain) = match gpu.state {
        DeviceState::Drained => (None, drain),
        _ => (drain, None),
    };
    // The state says it of a device that is not in use.
    let is_closed = !gpu.allowed && gpu.state != DeviceState::NotAllowed;
    let closed = is_closed.then(|| "not allowed for new jobs".to_owned());
    DeviceRow {
        name: format!("{}:{}", gpu.node, gpu.index),
        model: gpu.model_short.clone(),
        style: if is_reserved(gpu) { "soft" } else { style(gpu.state) },
        state,
        utilization: gpu.utilization.map(percent),
        memory,
        power: power.into_iter().chain(temperature).collect::<Vec<_>>().join(", "),
        jobs,
        drained: drained.unwrap_or_default(),
        note: health
            .into_iter()
            .chain(errors)
            .chain(outside)
            .chain(closed)
            .chain(drain)
            .chain(reserved)
            .collect::<Vec<_>>()
            .join("; "),
    }
}
