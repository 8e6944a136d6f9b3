//! `gpool gpus`: lists GPUs, and sets which of them new jobs may use.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use gpool_cli::args::list::{Format, ListFlags};
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::render::words;
use gpool_cli::resolve::{elements, every_job};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_model::Millis;
use gpool_wire::{AllowDevices, Gpu, Job, catalogue};

use crate::render::gpus::{GPUS, folded, footer, page, rows};
use crate::render::life::ran;

#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GpusArgs {
    #[command(subcommand)]
    action: Option<GpusAction>,
    /// Indexes or UUIDs of GPUs to show in full
    #[arg(value_name = "GPU", value_delimiter = ',')]
    gpus: Vec<String>,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Clone, Subcommand)]
enum GpusAction {
    /// Set the GPUs that new jobs may use; running jobs stay
    Allow {
        /// Indexes or UUIDs of GPUs, or all or none
        #[arg(required = true, value_name = "0,2|0-3|all|none", value_delimiter = ',')]
        gpus: Vec<String>,
        /// Node of the GPUs, required if there are several nodes
        #[arg(long, value_name = "NODE")]
        node: Option<String>,
    },
}

/// The GPUs of a node that new jobs may use.
fn allowed_text(of_node: &[&Gpu]) -> String {
    let node = of_node.first().map_or("", |gpu| &gpu.node);
    let allowed: Vec<u32> = of_node.iter().filter(|gpu| gpu.allowed).map(|gpu| gpu.index).collect();
    match allowed.as_slice() {
        [] => format!("new jobs may use no GPU of {node}"),
        allowed => format!("new jobs may use GPU {} of {node}", words::indexes(allowed)),
    }
}

/// Runs the verb.
pub fn run(args: GpusArgs, session: &Session) -> Result {
    let client = session.client()?;
    if let Some(GpusAction::Allow { gpus, node }) = args.action {
        let devices = if gpus == ["none"] { Vec::new() } else { gpus };
        let answer = client.allow_gpus(&AllowDevices { node: node.clone(), devices })?;
        let is_named = |gpu: &&Gpu| node.as_ref().is_none_or(|node| gpu.node == *node);
        let gpus: Vec<&Gpu> = answer.items.iter().filter(is_named).collect();
        for of_node in gpus.chunk_by(|one, next| one.node == next.node) {
            session.screen.note(&allowed_text(of_node));
        }
        return Ok(Exit::OK);
    }
    if !args.gpus.is_empty() && args.list.form(session.global.json) == Format::Table {
        return pages(&client, &args.gpus, session);
    }
    // A folded row has the values of its first device only, so columns and filters need single
    // rows.
    let folds = args.list.form(session.global.json) == Format::Table
        && args.list.format.is_empty()
        && args.list.filter.is_empty()
        && args.list.limit.is_none();
    show(&GPUS, &args.list, session, || {
        let gpus = select_gpus(client.gpus()?.items, &args.gpus)?;
        let all = rows(gpus, &remaining_times(&client, session)?);
        let footer = footer(&all);
        let shown = if folds && args.list.sort.is_none() { folded(all) } else { all };
        Ok(Listing::new(select(&GPUS, shown, &args.list)?, footer))
    })
}

fn pages(client: &Client, wanted: &[String], session: &Session) -> Result {
    let gpus = select_gpus(client.gpus()?.items, wanted)?;
    let pages: Vec<String> = gpus.iter().map(|gpu| page(gpu, &session.view())).collect();
    session.screen.data(&pages.join("\n"))?;
    Ok(Exit::OK)
}

/// The named GPUs; all if none is named.
fn select_gpus(gpus: Vec<Gpu>, wanted: &[String]) -> Result<Vec<Gpu>> {
    if wanted.is_empty() {
        return Ok(gpus);
    }
    let is = |gpu: &Gpu, name: &str| {
        gpu.uuid == name
            || name.parse() == Ok(gpu.index)
            || format!("{}:{}", gpu.node, gpu.index) == name
    };
    for name in wanted {
        if !gpus.iter().any(|gpu| is(gpu, name)) {
            let there: Vec<u32> = gpus.iter().map(|gpu| gpu.index).collect();
            let why = match there.as_slice() {
                [] => "there are no GPUs".to_owned(),
                there => format!("the choices are {}", words::indexes(there)),
            };
            let what = format!("there is no GPU {name:?}");
            return Err(Failure::new(catalogue::NO_SUCH_DEVICE, what).why(why).tip("gpool gpus"));
        }
    }
    Ok(gpus.into_iter().filter(|gpu| wanted.iter().any(|name| is(gpu, name))).collect())
}

/// The remaining time of each running job with a time limit.
pub fn remaining_times(client: &Client, session: &Session) -> Result<BTreeMap<String, Millis>> {
    let running = JobsQuery { state: Some("running".to_owned()), ..JobsQuery::default() };
    let view = session.view();
    let left = |job: Job| {
        let limit = words::limit(&job)?;
        Some((job.id.clone(), limit.saturating_sub(ran(&job, &view)?)))
    };
    let mut jobs = Vec::new();
    for job in every_job(client, &running)? {
        // An element allocates devices; its array does not.
        match &job.array {
            Some(_) => jobs.extend(elements(client, &job.id, "running", 0, usize::MAX)?),
            None => jobs.push(job),
        }
    }
    Ok(jobs.into_iter().filter_map(left).collect())
}
