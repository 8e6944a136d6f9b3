//! `gpool report`: the result of jobs, and their usage compared with their request.

use clap::Args;
use gpool_cli::act::Each;
use gpool_cli::args::jobs::Jobs;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::Between;
use gpool_cli::render::{json, yaml};
use gpool_cli::resolve::{self, JobScope};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_web::{SavedJob, saved_jobs};
use gpool_wire::Report;
use gpool_wire::usage::GpuHistoryParams;

use crate::render::report::page;

#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    #[command(flatten)]
    jobs: Jobs,
    /// Earliest end of the jobs to report, e.g. 2h (ago), 15:30 or 2026-11-20
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Latest end of the jobs to report
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Output format: text, json, jsonl, yaml or html
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: ReportFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
    /// A page that needs no other file.
    Html,
}

/// Points of the charts of a device.
const POINTS: u32 = 120;

/// Runs the verb.
pub fn run(args: &ReportArgs, session: &Session) -> Result {
    let between = Between::read(&args.since, &args.until, session)?;
    let is_any = between.since.is_none() && between.until.is_none();
    let client = session.client()?;
    let user = args.jobs.user.as_deref();
    let mut found =
        resolve::each(&client, args.jobs.references(), user, session.me(), JobScope::Ever)?;
    let mut reports = Vec::with_capacity(found.ids.len());
    let mut each = Each::of(&mut found);
    for id in &found.ids {
        let report = each.take(client.report(id).map_err(Failure::from))?;
        let Some(report) = report else { continue };
        if is_any || report.job.run.ended_at.is_some_and(|at| between.has(at)) {
            reports.push(report);
        }
    }
    if reports.is_empty() && !each.refused.is_empty() {
        return each.end("report on", Exit::OK);
    }
    let text = match args.output {
        ReportFormat::Text if !session.global.json => {
            let pages: Vec<String> =
                reports.iter().map(|report| page(report, &session.view())).collect();
            pages.join("\n")
        }
        ReportFormat::Text | ReportFormat::Json => json::list(&reports),
        ReportFormat::Jsonl => json::lines(&reports),
        ReportFormat::Yaml => yaml::of_json(&json::list(&reports)),
        ReportFormat::Html => html(&client, &reports, session)?,
    };
    session.screen.data(&text)?;
    each.end("report on", Exit::OK)
}

/// The reports as a page with the charts of the devices.
fn html(client: &Client, reports: &[Report], session: &Session) -> Result<String> {
    let view = session.view();
    let gpus = client.gpus()?.items;
    let mut all = Vec::with_capacity(reports.len());
    for report in reports {
        let asked = GpuHistoryParams::of_job(&report.job, POINTS);
        let history = asked.map(|asked| client.gpu_history(&asked)).transpose()?;
        all.push((report, client.life(&report.job.id)?.items, history.unwrap_or_default()));
    }
    let gpus = &gpus[..];
    let jobs = all.iter();
    let jobs = jobs.map(|(report, events, history)| SavedJob { report, events, gpus, history });
    let jobs: Vec<SavedJob<'_>> = jobs.collect();
    Ok(saved_jobs(&jobs, &view.clock.full(view.now), view.now))
}
