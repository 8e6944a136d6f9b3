//! Nodes: their GPUs, health, drain state and enforcement.

use askama::Template;
use gpool_wire::{Gpu, Node, Time};

use crate::frame::Frame;
use crate::overview::{Device, device};
use crate::sort::{By, Column, Head, Order, keys};
use crate::text::{gib, state};
use crate::written;

/// The contents of the page of nodes.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// The nodes.
    pub nodes: &'a [Node],
    /// All devices.
    pub gpus: &'a [Gpu],
    /// The order of the tables of devices.
    pub order: Order<'a>,
    /// The time of the answers.
    pub now: Time,
}

/// The table of devices.
#[derive(Template)]
#[template(path = "part/gpus.html")]
pub(crate) struct Gpus {
    devices: Vec<Device>,
    heads: Vec<Head>,
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
struct Page<'a> {
    frame: Frame<'a>,
    cards: Vec<Card<'a>>,
}

impl Nodes<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let cards = self.nodes.iter().map(|node| self.card(node)).collect();
        written(&Page { frame: self.frame, cards })
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
            ("Agent", Some(node.version.clone())),
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
