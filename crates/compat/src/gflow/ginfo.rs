//! `ginfo`: lists GPUs, grouped by state.

use std::collections::BTreeMap;

use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored};
use gpool_cli::foreign::flag::Takes::Nothing;
use gpool_cli::foreign::flag::{Flag, Spoken, row};
use gpool_cli::foreign::gflow::flags::CONFIG;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::words::indexes;
use gpool_cli::session::Session;
use gpool_model::device::DeviceState;
use gpool_wire::Gpu;

use super::completion;
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("quiet", 'q', Nothing, Ignored, "there is nothing to leave out"),
    row("verbose", 'v', Nothing, Ignored, "gpool gpus -o wide shows more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
];

pub static SPOKEN: Spoken =
    Spoken { name: "ginfo", about: "List GPUs of gpool", flags: &[FLAGS, CONFIG], words: "" };

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    if let [word, rest @ ..] = words
        && word == "completion"
    {
        return completion(rest, session);
    }
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    let client = session.client()?;
    let gpus = client.gpus()?.items;
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for id in gpus.iter().filter_map(|gpu| gpu.job.as_deref()) {
        if !names.contains_key(id) {
            // A job that has just ended has no name to show.
            names.insert(id, client.job(id).map(|job| job.name).unwrap_or_default());
        }
    }
    let mut groups: BTreeMap<(&str, String), Vec<u32>> = BTreeMap::new();
    for gpu in &gpus {
        groups.entry(state(gpu, &names)).or_default().push(gpu.index);
    }
    let head = ["PARTITION", "GPUS", "NODES", "STATE", "JOB(REASON)"].map(str::to_owned);
    let mut table = Table::new(head.to_vec());
    for ((state, reason), devices) in groups {
        let n = devices.len().to_string();
        table.push(vec![
            "gpu".into(),
            n.into(),
            indexes(&devices).into(),
            state.into(),
            Cell::new(&reason),
        ]);
    }
    print(&table.render(session.screen.width, false), session)
}

/// gflow's word for the state of a GPU, and the reason.
fn state(gpu: &Gpu, names: &BTreeMap<&str, String>) -> (&'static str, String) {
    if let Some(job) = gpu.job.as_deref() {
        let name = names.get(job).filter(|name| !name.is_empty());
        let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
        let closed = if gpu.allowed { "" } else { " (gpu_not_allowed)" };
        return ("allocated", format!("{job}{name}{closed}"));
    }
    if let Some(process) = gpu.unmanaged.first() {
        return ("allocated", format!("(unmanaged(pid={}))", process.pid));
    }
    match gpu.state {
        DeviceState::Free => ("idle", String::new()),
        DeviceState::NotAllowed => ("allocated", "(gpu_not_allowed)".to_owned()),
        other => {
            let why = gpu.health_why.clone();
            (
                "allocated",
                format!("({})", why.unwrap_or_else(|| format!("{other:?}").to_lowercase())),
            )
        }
    }
}
