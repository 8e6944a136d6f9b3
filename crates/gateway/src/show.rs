//! `gpool serve list` and `gpool serve show`.

use std::fmt::Write as _;

use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::session::Session;
use gpool_wire::Time;
use serde_json::json;

use crate::gateway::shown_host;
use crate::journal::now_s;
use crate::plan::Stage;
use crate::scale::count;
use crate::service::{Folder, PastDecision, Service, Status};

/// Age of a report after which the gateway counts as away, in seconds.
const OLD_S: u64 = 10;

/// The bounds of the number of replicas.
#[must_use]
pub fn bounds(service: &Service) -> String {
    match service.scale {
        rules if rules.min == rules.max => rules.min.to_string(),
        rules => format!("{}..{}", rules.min, rules.max),
    }
}

/// The report of the gateway, if it is not old.
fn fresh(folder: &Folder) -> Option<Status> {
    folder.status().ok().filter(|status| now_s() < status.at_s + OLD_S)
}

fn n_ready(status: &Status) -> usize {
    status.replicas.iter().filter(|it| it.stage == Stage::Ready).count()
}

/// Lists all services.
pub fn list(all: &Folder, session: &Session) -> Result {
    let known = all.names().into_iter().filter_map(|name| {
        let folder = all.of(&name);
        Some((folder.service().ok()?, fresh(&folder)))
    });
    let known: Vec<(Service, Option<Status>)> = known.collect();
    if session.global.json {
        let items = known.iter().map(|(service, status)| one_json(service, status.as_ref()));
        let items: Vec<_> = items.collect();
        session.screen.data(&json::list(&items))?;
        return Ok(Exit::OK);
    }
    let head = ["NAME", "REVISION", "READY", "REPLICAS", "IN FLIGHT", "HELD", "P50", "P99", "URL"];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for (service, status) in &known {
        let of = |text: &dyn Fn(&Status) -> String| status.as_ref().map_or("–".to_owned(), text);
        let row = [
            service.name.clone(),
            service.current.number.to_string(),
            of(&|it| format!("{}/{}", n_ready(it), it.n_wanted)),
            bounds(service),
            of(&|it| it.n_in_flight.to_string()),
            of(&|it| it.n_held.to_string()),
            of(&|it| milliseconds(it.figures.p50_ms)),
            of(&|it| milliseconds(it.figures.p99_ms)),
            match status {
                Some(status) => status.url.clone(),
                None => "does not run".to_owned(),
            },
        ];
        table.push(row.iter().map(|text| Cell::new(text)).collect());
    }
    session.screen.data(&table.render(session.screen.width, session.screen.colors))?;
    Ok(Exit::OK)
}

fn one_json(service: &Service, status: Option<&Status>) -> serde_json::Value {
    json!({
        "name": service.name,
        "revision": service.current.number,
        "canary": service.canary,
        "url": service.url(&shown_host(service)),
        "running": status.is_some(),
        "scale": service.scale,
        "status": status,
    })
}

fn milliseconds(time: Option<f64>) -> String {
    match time {
        None => "–".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.2} ms"),
        Some(ms) if ms < 10_000.0 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.1} s", ms / 1000.0),
    }
}

/// Shows a service.
pub fn one(folder: &Folder, service: &Service, session: &Session) -> Result {
    let status = fresh(folder);
    if session.global.json {
        session.screen.data(&json::one(one_json(service, status.as_ref())))?;
        return Ok(Exit::OK);
    }
    let text = match &status {
        Some(status) => page(service, status, session),
        None => {
            let name = &service.name;
            format!(
                "{name} does not run: its gateway has not reported for {OLD_S} s.\n  gpool queue \
                 --group {name}\n"
            )
        }
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn page(service: &Service, status: &Status, session: &Session) -> String {
    let figures = &status.figures;
    let mut text = format!("{}  {}\n", service.name, safe(&status.url));
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<11} {}", safe(value));
    };
    line("revision", &service.current.number.to_string());
    if let Some(update) = &status.update {
        line("update", update);
    }
    let ready =
        format!("{} ready of {}; bounds {}", n_ready(status), status.n_wanted, bounds(service));
    line("replicas", &ready);
    line("why", &status.reason);
    let (in_flight, held) = (status.n_in_flight, status.n_held);
    let rate = figures.requests_s;
    line("load", &format!("{in_flight} in flight, {held} held, {rate:.1} requests/s"));
    let (p50, p99) = (milliseconds(figures.p50_ms), milliseconds(figures.p99_ms));
    line("time", &format!("p50 {p50}, p99 {p99}"));
    if let Some(tokens) = figures.tokens_s {
        line("tokens", &format!("{tokens:.0} tokens/s"));
    }
    let sums = &status.sums;
    line(
        "requests",
        &format!(
            "{}, {} repeated, {} refused, {} failed",
            sums.n_requests, sums.n_repeated, sums.n_refused, sums.n_failed
        ),
    );
    if !status.replicas.is_empty() {
        text.push('\n');
        text.push_str(&replicas(status, session));
    }
    text.push('\n');
    text.push_str(&decisions(status, session));
    text
}

fn decisions(status: &Status, session: &Session) -> String {
    let view = session.view();
    let line = |past: &PastDecision| {
        let at = Time(gpool_model::Timestamp::new(past.at_s.saturating_mul(1000)));
        format!("{}  {}\n", view.clock.second(at, view.now), safe(&past.text))
    };
    status.decisions.iter().map(line).collect()
}

/// Prints the decisions of a service that runs.
pub fn reasons(folder: &Folder, name: &str, session: &Session) -> Result<()> {
    let Some(status) = fresh(folder) else { return Ok(()) };
    let wanted = count(status.n_wanted);
    let update = status.update.as_ref().map(|it| format!("  update: {}\n", safe(it)));
    let text = format!(
        "\nservice {name}: {wanted}: {}\n{}{}",
        safe(&status.reason),
        update.unwrap_or_default(),
        decisions(&status, session)
    );
    session.screen.data(&text)
}

fn replicas(status: &Status, session: &Session) -> String {
    let head = ["REPLICA", "JOB", "REVISION", "STAGE", "NODE", "IN FLIGHT", "WHY"];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for it in &status.replicas {
        let row = [
            it.index.to_string(),
            it.job.clone(),
            it.revision.to_string(),
            it.stage.name().to_owned(),
            it.node.clone().unwrap_or_default(),
            it.n_in_flight.to_string(),
            it.why.clone().unwrap_or_default(),
        ];
        table.push(row.iter().map(|text| Cell::new(text)).collect());
    }
    table.render(session.screen.width, session.screen.colors)
}
