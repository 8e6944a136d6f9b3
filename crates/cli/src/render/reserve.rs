//! Reservations, maintenance windows and drains for people, and the jobs that they affect.

use std::collections::BTreeMap;

use gpool_model::Millis;
use gpool_wire::reservation::RunningThere;
use gpool_wire::{Affected, DrainAnswer, DrainRequest, Reservation, Time};

use super::list::{Column, Noun};
use super::page::Page;
use super::safe::safe;
use super::style::Style;
use super::table::Cell;
use super::view::View;
use super::words::indexes;

/// Most jobs that are named one by one.
const NAMED_MAX: usize = 8;

pub const RESERVATIONS: Noun<Reservation> = Noun {
    columns: COLUMNS,
    table: &["name", "state", "for", "what", "from", "until", "every", "reason"],
    wide: &[
        "name", "state", "for", "what", "from", "until", "every", "reason", "asked", "by",
        "warnings",
    ],
    name: |it| it.name.clone(),
    keys: gpool_wire::keys::keys::<Reservation>,
};

const COLUMNS: &[Column<Reservation>] = &[
    Column { name: "name", head: "NAME", cell: |it, _| Cell::new(&it.name) },
    Column { name: "state", head: "STATE", cell: |it, _| state(it) },
    Column { name: "for", head: "FOR", cell: |it, _| Cell::new(&beneficiary(it)) },
    Column { name: "what", head: "WHAT", cell: |it, _| Cell::new(&what(it)) },
    Column {
        name: "from",
        head: "FROM",
        cell: |it, view| Cell::new(&view.clock.short(it.from, view.now)),
    },
    Column { name: "until", head: "UNTIL", cell: |it, view| Cell::new(&until(it, view)) },
    Column {
        name: "every",
        head: "EVERY",
        cell: |it, _| Cell::new(&every(it).unwrap_or_else(|| "–".to_owned())),
    },
    Column { name: "reason", head: "REASON", cell: |it, _| Cell::new(&it.reason) },
    Column {
        name: "asked",
        head: "ASKED",
        cell: |it, _| Cell::new(it.gpus_asked.as_deref().unwrap_or("–")),
    },
    Column { name: "by", head: "BY", cell: |it, _| Cell::new(&it.made_by) },
    Column { name: "warnings", head: "WARNINGS", cell: |it, _| Cell::new(&it.warnings.join("; ")) },
];

/// A reservation in one line: its devices, owner, begin and end.
#[must_use]
pub fn line(it: &Reservation, view: &View<'_>) -> String {
    let from = match it.state.as_str() {
        "active" => String::new(),
        _ => format!(" from {}", view.clock.short(it.from, view.now)),
    };
    let until = match it.until {
        Some(_) => format!(" until {}", until(it, view)),
        None => " until released".to_owned(),
    };
    let warned = if it.warnings.is_empty() { "" } else { " · differs from the request" };
    format!("{} {}: {} for {}{from}{until}{warned}", it.name, it.state, what(it), beneficiary(it))
}

fn state(it: &Reservation) -> Cell {
    let cell = match it.warnings.len() {
        0 => Cell::new(&it.state),
        n => Cell::new(&format!("{} ({n}!)", it.state)),
    };
    match (it.warnings.is_empty(), it.state == "active") {
        (false, _) => cell.styled(Style::Bad),
        (true, true) => cell.styled(Style::Good),
        (true, false) => cell,
    }
}

/// The owner: `user ana`, `nobody`.
fn beneficiary(it: &Reservation) -> String {
    match &it.beneficiary {
        Some(name) => format!("{} {name}", it.beneficiary_kind),
        None => it.beneficiary_kind.clone(),
    }
}

/// The reserved devices: `lab1:0,1 lab2`.
fn what(it: &Reservation) -> String {
    let mut by_node = BTreeMap::<&str, (Vec<u32>, usize)>::new();
    for gpu in &it.gpus {
        let here = by_node.entry(&gpu.node).or_default();
        match gpu.index {
            Some(index) => here.0.push(index),
            None => here.1 += 1,
        }
    }
    let mut words: Vec<String> = it.nodes.clone();
    for (node, (here, n_gone)) in by_node {
        let gone = if n_gone > 0 { format!("+{n_gone} gone") } else { String::new() };
        words.push(format!("{node}:{}{gone}", indexes(&here)));
    }
    words.join(" ")
}

fn until(it: &Reservation, view: &View<'_>) -> String {
    it.until.map_or_else(|| "released".to_owned(), |until| view.clock.short(until, view.now))
}

fn every(it: &Reservation) -> Option<String> {
    it.every.map(|every| super::clock::span(every).to_string())
}

/// The new or planned reservation in a line.
#[must_use]
pub fn headline(it: &Reservation, done: bool, view: &View<'_>) -> String {
    let reserves = if done { "reserves" } else { "would reserve" };
    let whom = match it.kind.as_str() {
        "maintenance" => "for maintenance".to_owned(),
        _ => format!("for {}", beneficiary(it)),
    };
    let until = match it.until {
        Some(until) => format!("to {}", view.clock.full(until)),
        None => "until released".to_owned(),
    };
    let every = every(it).map(|every| format!(", every {every}")).unwrap_or_default();
    let from = view.clock.full(it.from);
    let mut text = format!("{} {reserves} {} {whom}\n  {from} {until}{every}\n", it.name, what(it));
    for warning in &it.warnings {
        text.push_str(&format!("  warning: {warning}\n"));
    }
    safe_lines(&text)
}

/// The new or planned drain in a line.
#[must_use]
pub fn drain_headline(answer: &DrainAnswer, request: &DrainRequest, view: &View<'_>) -> String {
    let drains = match (answer.targets.len(), answer.done) {
        (1, true) => "drains",
        (_, true) => "drain",
        (_, false) => "would drain",
    };
    let by = match request.by {
        Some(by) => {
            let left = by.0.since(view.now.0);
            format!(" by {} ({left} from now)", view.clock.full(by))
        }
        None => String::new(),
    };
    safe_lines(&format!("{} {drains}{by}\n", answer.targets.join(", ")))
}

/// The affected jobs, one line each; empty if there are none.
#[must_use]
pub fn affected(affected: &Affected, view: &View<'_>) -> String {
    let mut lines = Vec::new();
    if !affected.in_time.is_empty() {
        let n = affected.in_time.len();
        let ids = ids(affected.in_time.iter().map(|it| &it.id), n);
        let in_time = if affected.by.is_some() { "will finish in time" } else { "may finish" };
        lines.push(format!("{} there {in_time} ({ids})", jobs(n)));
    }
    if !affected.too_long.is_empty() {
        let n = affected.too_long.len();
        let each: Vec<String> =
            affected.too_long.iter().take(NAMED_MAX).map(|it| too_long(it, view)).collect();
        let more = if n > NAMED_MAX { ", …" } else { "" };
        lines.push(format!("{} will not finish in time: {}{more}", jobs(n), each.join(", ")));
    }
    if affected.n_waiting > 0 {
        let n = usize::try_from(affected.n_waiting).unwrap_or(usize::MAX);
        let ids = ids(affected.waiting.iter().map(|it| &it.id), n);
        let latest = affected.waiting.iter().filter_map(|it| Some((it.later_s?, &it.id))).max();
        let worst = match latest {
            Some((seconds, id)) if seconds > 0 => {
                format!(", worst +{}: {id}", Millis::new(seconds.saturating_mul(1000)))
            }
            _ => String::new(),
        };
        let jobs = if n == 1 { "job" } else { "jobs" };
        lines.push(format!("{n} waiting {jobs} may no longer start there ({ids}{worst})"));
    }
    let text: String = lines.into_iter().map(|line| format!("  {line}\n")).collect();
    safe_lines(&text)
}

fn too_long(it: &RunningThere, view: &View<'_>) -> String {
    let ends = it.ends.map(|ends| view.clock.short(ends, view.now));
    let when = match (ends, it.basis.as_deref()) {
        (Some(ends), Some("limit")) => format!("limit {ends}"),
        (Some(ends), _) => format!("likely {ends}"),
        (None, _) => "no time limit".to_owned(),
    };
    format!("{} ({}, {when})", it.id, view.user(&it.user))
}

fn ids<'a>(all: impl Iterator<Item = &'a String>, n: usize) -> String {
    let mut ids: Vec<&str> = all.take(NAMED_MAX).map(String::as_str).collect();
    if n > ids.len() {
        ids.push("…");
    }
    ids.join(", ")
}

fn jobs(n: usize) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{n} jobs") }
}

#[must_use]
pub fn page(it: &Reservation, view: &View<'_>) -> String {
    let mut page = Page::new(&format!("{} {} · {}", it.kind, it.name, it.state));
    page.label("for", &beneficiary(it));
    page.label("what", &what(it));
    page.label_if("asked", it.gpus_asked.as_deref());
    page.label("from", &view.clock.full(it.from));
    let until = it.until.map(|until| view.clock.full(until));
    page.label("until", until.as_deref().unwrap_or("it is released"));
    page.label_if("every", every(it).as_deref());
    page.label("at begin", &it.at_begin.replace('_', " "));
    page.label_if("reason", Some(it.reason.as_str()).filter(|reason| !reason.is_empty()));
    page.label("created", &format!("by {}, {}", it.made_by, view.clock.full(it.made_at)));
    page.labels("warning", &it.warnings);
    page.text()
}

/// Width of the time axis.
const COLUMNS_OF_TIME: u64 = 48;

/// The times of each reservation from now on, drawn as bars; a recurring reservation has several.
#[must_use]
pub fn timeline(all: &[Reservation], view: &View<'_>, ascii: bool) -> String {
    if all.is_empty() {
        return "nothing is reserved\n".to_owned();
    }
    let now = view.now.0;
    let lasts = all.iter().map(|it| it.until.unwrap_or(it.from).0.max(it.from.0));
    let span = lasts.map(|last| last.since(now)).max().unwrap_or_default();
    // At least a day, with whole hours per column.
    let hours = span.get().div_ceil(3_600_000).max(24).div_ceil(COLUMNS_OF_TIME).max(1);
    let step = Millis::new(hours * 3_600_000);
    let (full, empty) = if ascii { ('#', '.') } else { ('█', '·') };
    let width = all.iter().map(|it| it.name.chars().count()).max().unwrap_or(0).max(4);
    let last = Time(now.after(Millis::new(step.get() * COLUMNS_OF_TIME)));
    let mut text = format!(
        "{:width$}  {} … {}, {step} a column\n",
        "NAME",
        view.clock.short(view.now, view.now),
        view.clock.short(last, view.now),
    );
    for it in all {
        let line: String = (0..COLUMNS_OF_TIME)
            .map(|column| {
                let from = now.after(Millis::new(step.get() * column));
                if holds(it, from.get(), from.after(step).get()) { full } else { empty }
            })
            .collect();
        text.push_str(&format!("{:width$}  {line}  {} {}\n", it.name, beneficiary(it), what(it)));
    }
    safe_lines(&text)
}

/// Whether a reservation is active at some time of an interval.
fn holds(it: &Reservation, from: u64, until: u64) -> bool {
    let begins = it.from.0.get();
    let Some(ends) = it.until.map(|until| until.0.get()) else {
        return begins < until;
    };
    let every = it.every.map(|every| super::clock::span(every).get()).filter(|every| *every > 0);
    let n_past = match every {
        Some(every) if from >= ends => (from - ends) / every + 1,
        _ => 0,
    };
    let later = n_past.saturating_mul(every.unwrap_or(0));
    begins.saturating_add(later) < until && from < ends.saturating_add(later)
}

/// Text of users without control characters.
fn safe_lines(text: &str) -> String {
    text.split_inclusive('\n').map(|line| format!("{}\n", safe(line.trim_end()))).collect()
}
