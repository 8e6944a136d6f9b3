//! The data once, as tables or one JSON document.

use std::time::Duration;

use gpool_cli::args::list::{Format, ListFlags};
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::gpus::{self, GPUS};
use gpool_cli::render::jobs::{self, JOBS};
use gpool_cli::render::json;
use gpool_cli::render::list::{Noun, select};
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::Bytes;
use gpool_top::kinds::{MACHINE_GPUS, PROCESSES, percent};
use serde::Serialize;
use serde_json::json;

use super::machine::{LocalMachine, Reading};
use gpool_verbs::gpus::remaining_times;

/// Rows of a table; the line below it tells how many there are.
const ROWS: u32 = 200;
/// The time over which the use of cores is measured.
const SAMPLE: Duration = Duration::from_millis(300);

/// Prints the GPUs and jobs of a cluster.
pub fn cluster(client: &Client, session: &Session) -> Result {
    let status = client.status()?;
    let all = client.gpus()?.items;
    let query = JobsQuery { limit: Some(ROWS), ..JobsQuery::default() };
    let page = client.jobs(&query)?;
    if session.global.json {
        let document = json!({"status": status, "gpus": all, "jobs": page.items});
        session.screen.data(&json::one(document))?;
        return Ok(Exit::OK);
    }
    let rows = gpus::rows(all, &remaining_times(client, session)?);
    let below = gpus::footer(&rows);
    let upper = table(&GPUS, gpus::folded(rows), &below, session)?;
    let below = jobs::footer(page.items.len(), page.total, Some(&status));
    let lower = table(&JOBS, page.items, &below, session)?;
    session.screen.data(&format!("{upper}\n{lower}"))?;
    Ok(Exit::OK)
}

/// Prints this machine with its GPUs and the processes on them.
pub fn machine(machine: &mut LocalMachine, session: &Session) -> Result {
    machine.read();
    std::thread::sleep(SAMPLE);
    let Reading { machine, gpus, processes } = machine.read();
    if session.global.json {
        let document = json!({"machine": machine, "gpus": gpus, "processes": processes});
        session.screen.data(&json::one(document))?;
        return Ok(Exit::OK);
    }
    let mut text = format!("{}  {} CPUs", safe(&machine.name), machine.cpus);
    if let Some(cpu) = machine.cpu {
        text.push_str(&format!(", {}% busy", percent(cpu)));
    }
    let (used, total) = (Bytes::new(machine.memory_used), Bytes::new(machine.memory_total));
    text.push_str(&format!("  memory {used} of {total}"));
    if let Some(driver) = &machine.driver {
        text.push_str(&format!("  {}", safe(driver)));
    }
    text.push('\n');
    match &machine.no_gpus {
        Some(why) => text.push_str(&format!("no GPUs: {}\n", safe(why))),
        None => {
            text.push_str(&table(&MACHINE_GPUS, gpus, "", session)?);
            if !processes.is_empty() {
                text.push_str(&format!("\n{}", table(&PROCESSES, processes, "", session)?));
            }
        }
    }
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn table<T: Serialize>(
    noun: &Noun<T>,
    items: Vec<T>,
    footer: &str,
    session: &Session,
) -> Result<String> {
    let rows = select(noun, items, &ListFlags::default())?;
    noun.text(&rows, Format::Table, &[], &session.look(footer))
}
