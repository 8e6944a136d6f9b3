//! The list of nodes: `gpool nodes`.

use gpool_model::Bytes;
use gpool_wire::Node;
use gpool_wire::reservation::ReservedHere;

use super::list::{Column, Noun};
use super::style::Style;
use super::table::Cell;
use super::view::View;

pub const NODES: Noun<Node> = Noun {
    columns: COLUMNS,
    table: &["node", "pool", "state", "gpus", "cpus", "mem", "tasks", "devices", "note"],
    wide: &[
        "node",
        "pool",
        "state",
        "gpus",
        "cpus",
        "mem",
        "tasks",
        "devices",
        "labels",
        "note",
        "containers",
        "address",
        "system",
        "version",
        "heard",
        "clock",
        "agent-cpu",
        "agent-mem",
    ],
    name: |node| node.name.clone(),
    keys: gpool_wire::keys::keys::<Node>,
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
    Column { name: "labels", head: "LABELS", cell: |node, _| Cell::new(&node.labels.join(" ")) },
    Column { name: "note", head: "NOTE", cell: |node, view| Cell::new(&note(node, view)) },
    Column {
        name: "containers",
        head: "CONTAINERS",
        cell: |node, _| Cell::new(node.container_engine.as_deref().unwrap_or("")),
    },
    Column {
        name: "address",
        head: "ADDRESS",
        cell: |node, _| Cell::new(node.address.as_deref().unwrap_or("")),
    },
    Column { name: "system", head: "SYSTEM", cell: |node, _| Cell::new(&node.system) },
    Column { name: "version", head: "VERSION", cell: |node, _| Cell::new(&node.version) },
    Column {
        name: "heard",
        head: "LAST HEARD",
        cell: |node, view| {
            Cell::new(
                &node.last_message_at.map_or_else(String::new, |it| view.clock.short(it, view.now)),
            )
        },
    },
    Column {
        name: "clock",
        head: "CLOCK",
        cell: |node, _| Cell::new(&node.clock_offset_ms.map_or_else(String::new, clock_offset)),
    },
    Column {
        name: "agent-cpu",
        head: "AGENT CPU",
        cell: |node, _| {
            let percent = node.agent_cpu_percent.map(|it| format!("{it:.1} %"));
            Cell::new(&percent.unwrap_or_default())
        },
    },
    Column {
        name: "agent-mem",
        head: "AGENT MEMORY",
        cell: |node, _| {
            let memory = node.agent_memory.map(|it| Bytes::new(it).to_string());
            Cell::new(&memory.unwrap_or_default())
        },
    },
];

fn state(node: &Node) -> Cell {
    if node.drain.is_some() {
        Cell::new("drained").styled(Style::Bad)
    } else if node.connected {
        Cell::new("up").styled(Style::Good)
    } else if node.membership == "lost" {
        Cell::new("lost").styled(Style::Bad)
    } else {
        Cell::new("unreachable").styled(Style::Bad)
    }
}

/// A clock that is further away than this makes times of jobs misleading, in milliseconds.
const OFFSET_MIN: u64 = 1000;

/// The offset of a clock: `+0.02 s`.
fn clock_offset(offset_ms: i64) -> String {
    let sign = if offset_ms < 0 { '-' } else { '+' };
    let hundredths = offset_ms.unsigned_abs() / 10;
    format!("{sign}{}.{:02} s", hundredths / 100, hundredths % 100)
}

/// Drains, reservations and other limits on new jobs.
fn note(node: &Node, view: &View<'_>) -> String {
    let mut notes = Vec::new();
    if let Some(since) = node.silent_since {
        notes.push(format!("silent since {}", view.clock.short(since, view.now)));
    }
    notes.extend(node.agent_refusal.iter().map(|why| format!("agent refused: {why}")));
    if let Some(offset) = node.clock_offset_ms.filter(|it| it.unsigned_abs() > OFFSET_MIN) {
        notes.push(format!("its clock is off by {}", clock_offset(offset)));
    }
    if let Some(drain) = &node.drain {
        let by = drain.by.map(|by| format!(" by {}", view.clock.short(by, view.now)));
        notes.push(format!("drained{}: {}", by.unwrap_or_default(), drain.reason));
    }
    if node.n_gpus_drained > 0 {
        notes.push(format!("{} GPUs drained", node.n_gpus_drained));
    }
    notes.extend(node.reservations.iter().map(|it| reserved(it, view)));
    notes.join("; ")
}

/// A reservation in short: `r1 for user ana until 18:00`.
pub fn reserved(it: &ReservedHere, view: &View<'_>) -> String {
    let whom = match &it.beneficiary {
        Some(name) => format!("{} for {} {name}", it.name, it.beneficiary_kind),
        None => format!("maintenance {}", it.name),
    };
    let from = if it.active {
        String::new()
    } else {
        format!(" from {}", view.clock.short(it.from, view.now))
    };
    let until = it.until.map(|until| format!(" until {}", view.clock.short(until, view.now)));
    format!("{whom}{from}{}", until.unwrap_or_default())
}
