//! Nodes as a list: `gpool nodes`.

use gpool_model::Bytes;
use gpool_wire::Node;

use super::list::{Column, Noun};
use super::style::Style;
use super::table::Cell;

/// Nodes.
pub const NODES: Noun<Node> = Noun {
    columns: COLUMNS,
    table: &["node", "pool", "state", "gpus", "cpus", "mem", "tasks", "devices"],
    wide: &[
        "node", "pool", "state", "gpus", "cpus", "mem", "tasks", "devices", "system", "version",
    ],
    name: |node| node.name.clone(),
    keys: gpool_wire::schema::fields::<Node>,
};

const COLUMNS: &[Column<Node>] = &[
    Column { name: "node", head: "NODE", cell: |node, _| Cell::new(&node.name) },
    Column { name: "pool", head: "POOL", cell: |node, _| Cell::new(&node.pool) },
    Column { name: "state", head: "STATE", cell: |node, _| state(node) },
    Column {
        name: "gpus",
        head: "GPUS FREE",
        cell: |node, _| Cell::new(&format!("{} of {}", node.n_gpus_free, node.n_gpus)),
    },
    Column {
        name: "cpus",
        head: "CPUS BOOKED",
        cell: |node, _| Cell::new(&format!("{} of {}", node.cpus_used, node.cpus)),
    },
    Column {
        name: "mem",
        head: "MEMORY BOOKED",
        cell: |node, _| {
            let (used, all) = (Bytes::new(node.memory_used), Bytes::new(node.memory));
            Cell::new(&format!("{used} of {all}"))
        },
    },
    Column {
        name: "tasks",
        head: "TASKS",
        cell: |node, _| Cell::new(&format!("{} of {}", node.tasks_used, node.tasks)),
    },
    Column { name: "devices", head: "DEVICES FROM", cell: |node, _| Cell::new(&node.devices_from) },
    Column { name: "system", head: "SYSTEM", cell: |node, _| Cell::new(&node.system) },
    Column { name: "version", head: "VERSION", cell: |node, _| Cell::new(&node.version) },
];

fn state(node: &Node) -> Cell {
    if node.connected {
        Cell::new("up").styled(Style::Good)
    } else {
        Cell::new("unreachable").styled(Style::Bad)
    }
}
