//! `gpool simulate --if …`: the effect of changes on the live cluster, without making them.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::clock::span;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::view::View;
use gpool_cli::render::words::{NOTHING, count};
use gpool_cli::render::{json, yaml};
use gpool_cli::screen::Screen;
use gpool_cli::session::Session;
use gpool_cli::working::during;
use gpool_wire::amount::Quantity;
use gpool_wire::{
    SimulateAsk, SimulatedCourse, SimulatedFate, SimulatedFigures, SimulatedJob, SimulatedProject,
    Simulation, Time,
};

use crate::PageFormat;

/// Most jobs in the text output.
const JOBS_MAX: usize = 40;

/// The changes, and the output format.
#[derive(Debug, Clone, Args)]
pub struct SupposeArgs {
    /// Change to assume, e.g. --if 'drain n3'; repeat it for several, applied in order
    #[arg(long = "if", value_name = "CHANGE")]
    supposed: Vec<String>,
    /// Simulated time, e.g. 2h (default: only the next decision)
    #[arg(long = "for", value_name = "TIME")]
    horizon: Option<String>,
    /// Also run the jobs of a past time once more, e.g. 7d (at most 90d)
    #[arg(long, value_name = "TIME")]
    past: Option<String>,
    /// Output format: text, json, jsonl or yaml
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: PageFormat,
}

/// Runs the verb.
pub fn run(args: &SupposeArgs, session: &Session) -> Result {
    let ask = SimulateAsk {
        supposed: args.supposed.clone(),
        horizon: args.horizon.clone().map(Quantity::Text),
        past: args.past.clone().map(Quantity::Text),
    };
    let client = session.client()?;
    let made = during(&session.screen, "simulating", || client.simulate(&ask))?;
    let text = match args.output.or_json(session.global.json) {
        PageFormat::Text => as_text(&made, &session.view(), &session.screen),
        PageFormat::Json => json::one(&made),
        PageFormat::Jsonl => json::lines(&made.jobs),
        PageFormat::Yaml => yaml::of_json(&json::one(&made)),
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

fn as_text(made: &Simulation, view: &View<'_>, screen: &Screen) -> String {
    let mut text = String::new();
    let changes = !made.supposed.is_empty();
    text.push_str(&match (made.until, changes) {
        (None, true) => "Next decision with the changes:\n".to_owned(),
        (None, false) => "Next decision:\n".to_owned(),
        (Some(until), true) => format!("Until {}, with the changes:\n", moment(until, view)),
        (Some(until), false) => format!("Until {}:\n", moment(until, view)),
    });
    if made.jobs.is_empty() {
        text.push_str(if changes {
            "The changes affect no job.\n"
        } else {
            "No job starts or waits.\n"
        });
    } else {
        let shown = &made.jobs[..made.jobs.len().min(JOBS_MAX)];
        text.push_str(&jobs(shown, view, screen));
        let more = made.n_touched.saturating_sub(shown.len() as u64);
        if more > 0 {
            text.push_str(&format!("{more} more jobs; -o json shows up to 1000\n"));
        }
    }
    if !made.projects.is_empty() {
        text.push('\n');
        text.push_str(&projects(&made.projects, screen));
    }
    for (name, course) in [("Present queue", &made.queue), ("Past jobs", &made.past)] {
        if let Some(course) = course {
            text.push_str(&figures(name, course, view, screen));
        }
    }
    if made.n_beyond > 0 {
        text.push_str(&format!(
            "The simulation does not cover {} jobs further down the queue.\n",
            made.n_beyond
        ));
    }
    text
}

fn moment(at: Time, view: &View<'_>) -> String {
    view.clock.short(at, view.now)
}

fn jobs(jobs: &[SimulatedJob], view: &View<'_>, screen: &Screen) -> String {
    let fate = |fate: &SimulatedFate| {
        let word = match fate.is.as_str() {
            "taken_back" => "is preempted".to_owned(),
            "kept" => "is not preempted".to_owned(),
            "stopped" => "is stopped".to_owned(),
            "held" => "is held".to_owned(),
            other => other.replace('_', " "),
        };
        match fate.at {
            Some(at) if at > view.now => format!("{word} {}", moment(at, view)),
            _ => word,
        }
    };
    let columns = ["JOB", "USER", "PROJECT", "GPUS", "BEFORE", "AFTER", "WHY"];
    let rows = jobs.iter().map(|job| {
        let before = job.before.as_ref().map_or_else(|| NOTHING.to_owned(), fate);
        let mut after = fate(&job.after);
        if ["sooner", "later"].contains(&job.what.as_str()) {
            after = format!("{after} ({})", job.what);
        }
        let why = job.reason.as_deref().unwrap_or_default();
        let why = why.strip_prefix("It ").unwrap_or(why);
        [&job.id, &job.user, &job.project, &job.gpus, &before, &after, why]
            .map(|text: &str| Cell::new(text))
            .to_vec()
    });
    drawn(&columns, rows.collect(), screen)
}

fn projects(projects: &[SimulatedProject], screen: &Screen) -> String {
    let number = |gpus: f64| format!("{gpus}");
    let some = |gpus: Option<f64>| gpus.map_or_else(|| NOTHING.to_owned(), number);
    let change = |before: String, after: String| match before == after {
        true => before,
        false => format!("{before} → {after}"),
    };
    let rows = projects.iter().map(|it| {
        let (before, after) = (&it.before, &it.after);
        [
            it.project.clone(),
            change(some(before.guaranteed), some(after.guaranteed)),
            change(some(before.share), some(after.share)),
            change(number(before.held), number(after.held)),
        ]
        .iter()
        .map(|text| Cell::new(text))
        .collect()
    });
    drawn(&["PROJECT", "GUARANTEED", "SHARE", "IN USE"], rows.collect(), screen)
}

/// The figures of a simulation, without and with the changes.
fn figures(name: &str, course: &SimulatedCourse, view: &View<'_>, screen: &Screen) -> String {
    let [since, until] = [course.since, course.until].map(|at| moment(at, view));
    let n_jobs = count(course.n_jobs, "job");
    let mut text = format!("\n{name}, {since} to {until}, {n_jobs}:\n");
    let span = |wait: f64| span(wait.abs()).to_string();
    let wait = |wait: Option<f64>| wait.map_or_else(|| "beyond the end".to_owned(), span);
    let used = |part: Option<f64>| {
        part.map_or_else(|| NOTHING.to_owned(), |part| format!("{:.1}%", part * 100.0))
    };
    let row = |name: &str, figure: &dyn Fn(&SimulatedFigures) -> String| {
        let after = course.after.as_ref().map_or_else(|| NOTHING.to_owned(), figure);
        [name.to_owned(), figure(&course.before), after].iter().map(|it| Cell::new(it)).collect()
    };
    let rows = vec![
        row("wait, median", &|it| wait(it.wait_p50_s)),
        row("wait, 90th percentile", &|it| wait(it.wait_p90_s)),
        row("jobs that do not start", &|it| it.n_waiting.to_string()),
        row("GPUs in use", &|it| used(it.utilization)),
        row("preemptions", &|it| it.n_preempted.to_string()),
        row("GPUs", &|it| it.n_gpus.to_string()),
    ];
    text.push_str(&drawn(&["FIGURE", "BEFORE", "AFTER"], rows, screen));
    if let Some(pairs) = &course.paired {
        let less = if pairs.mean_s < 0.0 { "less" } else { "longer" };
        text.push_str(&format!(
            "Job by job: {} {less} on average, {} sooner, {} later.\n",
            span(pairs.mean_s),
            pairs.n_sooner,
            pairs.n_later
        ));
    }
    for warning in &course.warnings {
        text.push_str(&format!("{warning}\n"));
    }
    text
}

fn drawn(columns: &[&str], rows: Vec<Vec<Cell>>, screen: &Screen) -> String {
    let mut table = Table::new(columns.iter().map(ToString::to_string).collect());
    rows.into_iter().for_each(|row| table.push(row));
    table.render(screen.width, screen.colors)
}
