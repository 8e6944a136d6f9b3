//! Nodes: their GPUs, health, drain state and enforcement.

use askama::Template;
use gpool_wire::{Gpu, Node, Time};

use crate::frame::Frame;
use crate::overview::{Device, device};
use crate::text::gib;
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
    /// The time of the answers.
    pub now: Time,
}

#[derive(Template)]
#[template(path = "part/gpus.html")]
struct Gpus {
    devices: Vec<Device>,
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
            gpus: Gpus { devices: own.into_iter().map(|gpu| device(gpu, self.now)).collect() },
        }
    }
}
