//! The server and its cluster on one page: `gpool status`.

use std::collections::BTreeMap;

use gpool_cli::render::page::Page;
use gpool_cli::render::reserve;
use gpool_cli::render::view::View;
use gpool_cli::render::words::{count, grouped, state};
use gpool_model::Millis;
use gpool_wire::{NotifyCounts, Recovery, Status};

use super::recovery::in_short;

/// Most reservations that are listed one by one.
const RESERVED_MAX: usize = 8;

#[must_use]
pub fn page(status: &Status, recovery: &Recovery, view: &View<'_>) -> String {
    let up = Millis::new(status.uptime_s.saturating_mul(1000));
    let mut page = Page::new(&format!("gpool {} · pid {} · up {up}", status.version, status.pid));
    page.label("user", view.user(&status.user));
    page.label("socket", &status.socket);
    page.label_if("pages", status.web.as_deref().or(status.web_fault.as_deref()));
    page.label_if("network", status.network_fault.as_deref());
    page.label("state", &status.state_dir);
    page.label("started", &view.clock.full(status.started_at));
    page.label_if("store", status.store_fault.as_deref());
    page.label_if("usage", status.usage_fault.as_deref());
    page.label_if("lacking", status.lacking.as_deref());
    page.label_if("recovered", in_short(recovery, view).as_deref());
    let jobs = by_state(&status.jobs);
    let ended = format!("{} ended", grouped(status.jobs_ended));
    page.label("jobs", &if jobs.is_empty() { ended } else { format!("{jobs} · {ended}") });
    let gpus = by_state(&status.gpus);
    page.label("gpus", if gpus.is_empty() { "none" } else { &gpus });
    let nodes = count(status.nodes, "node");
    page.label("nodes", &format!("{nodes}, {} connected", status.nodes_connected));
    for (n, it) in status.reservations.iter().enumerate() {
        let label = if n == 0 { "reserved" } else { "" };
        if n == RESERVED_MAX {
            let n_more = status.reservations.len() - n;
            page.label(label, &format!("{n_more} more · gpool reserve list"));
            break;
        }
        page.label(label, &reserve::line(it, view));
    }
    page.label_if("told", notification_counts(&status.notifications).as_deref());
    let policy = &status.policy;
    let (_, strategy) = strategy(policy.device_strategy);
    page.label(
        "policy",
        &format!("{} (order {}) · GPUs {strategy}", policy.preset, policy.order.join(", ")),
    );
    page.text()
}

/// The counts of notifications; `None` if there were none.
fn notification_counts(counts: &NotifyCounts) -> Option<String> {
    let parts = [
        (counts.taken, "delivered"),
        (counts.waiting, "waiting"),
        (counts.given_up, "given up"),
        (counts.dropped, "dropped"),
    ];
    let part = |(n, word): &(u64, &str)| format!("{} {word}", grouped(*n));
    let parts: Vec<String> = parts.iter().filter(|(n, _)| *n > 0).map(part).collect();
    let hint = if counts.given_up + counts.waiting > 0 { " · gpool notify" } else { "" };
    (!parts.is_empty()).then(|| format!("{}{hint}", parts.join(" · ")))
}

fn strategy(of: gpool_model::DeviceStrategy) -> (gpool_model::DeviceStrategy, &'static str) {
    let known = gpool_model::DeviceStrategy::ALL.into_iter().find(|(_, strategy)| *strategy == of);
    (of, known.map_or("", |(word, _)| word))
}

fn by_state(counts: &BTreeMap<String, u64>) -> String {
    let part = |(word, n): (&String, &u64)| format!("{} {}", grouped(*n), state(word));
    counts.iter().filter(|(_, n)| **n > 0).map(part).collect::<Vec<_>>().join(" · ")
}
