//! `gpool simulate --if …`: the effect of changes on the live cluster, without making them.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::table::{Cell, Table};
use gpool_cli::render::view::View;
use gpool_cli::render::{json, yaml};
use gpool_cli::screen::Screen;
use gpool_cli::session::Session;
use gpool_wire::amount::Written;
use gpool_wire::{SimulateAsk, SimulatedFate, SimulatedJob, SimulatedProject, Simulation, Time};

use super::PageFormat;

/// Most jobs in the text output.
const SHOWN: usize = 40;

/// The changes, and the output format.
#[derive(Debug, Clone, Args)]
pub struct SupposeArgs {
    /// Change to assume, e.g. --if 'drain n3'; repeat it for several, applied in order
    #[arg(long = "if", value_name = "CHANGE")]
    supposed: Vec<String>,
    /// Simulated time: 2h; default: only the present decision
    #[arg(long = "for", value_name = "TIME")]
    horizon: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: PageFormat,
}

/// Runs the verb.
///
/// # Errors
/// The server can't be asked or refuses a change.
pub fn run(args: &SupposeArgs, session: &Session) -> Result {
    let ask = SimulateAsk {
        supposed: args.supposed.clone(),
        horizon: args.horizon.clone().map(Written::Text),
    };
    let made = session.client()?.simulate(&ask)?;
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
        (None, true) => "at once, if so:\n".to_owned(),
        (None, false) => "at once, as things are:\n".to_owned(),
        (Some(until), true) => format!("until {}, if so:\n", moment(until, view)),
        (Some(until), false) => format!("until {}, as things are:\n", moment(until, view)),
    });
    if made.jobs.is_empty() {
        text.push_str(if changes {
            "no job fares otherwise\n"
        } else {
            "no job starts or waits\n"
        });
    } else {
        let shown = &made.jobs[..made.jobs.len().min(SHOWN)];
        text.push_str(&jobs(shown, view, screen));
        let more = made.n_touched.saturating_sub(shown.len() as u64);
        if more > 0 {
            text.push_str(&format!("and {more} more; -o json has up to 1000\n"));
        }
    }
    if !made.projects.is_empty() {
        text.push('\n');
        text.push_str(&projects(&made.projects, screen));
    }
    if made.n_beyond > 0 {
        text.push_str(&format!(
            "{} jobs that wait behind these are not looked at\n",
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
        let word = fate.is.replace('_', " ");
        match fate.at {
            Some(at) if at > view.now => format!("{word} {}", moment(at, view)),
            _ => word,
        }
    };
    let columns = ["JOB", "USER", "PROJECT", "GPUS", "BEFORE", "AFTER", "WHY"];
    let rows = jobs.iter().map(|job| {
        let before = job.before.as_ref().map_or_else(|| "not there".to_owned(), fate);
        let mut after = fate(&job.after);
        if ["sooner", "later", "kept"].contains(&job.what.as_str()) {
            after = format!("{after} ({})", job.what);
        }
        let why = job.reason.as_deref().unwrap_or_default();
        [&job.id, &job.user, &job.project, &job.gpus, &before, &after, why]
            .map(|text: &str| Cell::new(text))
            .to_vec()
    });
    drawn(&columns, rows.collect(), screen)
}

fn projects(projects: &[SimulatedProject], screen: &Screen) -> String {
    let number = |gpus: f64| format!("{gpus}");
    let some = |gpus: Option<f64>| gpus.map_or_else(|| "-".to_owned(), number);
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
    drawn(&["PROJECT", "GUARANTEED", "SHARE", "HOLDS"], rows.collect(), screen)
}

fn drawn(columns: &[&str], rows: Vec<Vec<Cell>>, screen: &Screen) -> String {
    let mut table = Table::new(columns.iter().map(ToString::to_string).collect());
    rows.into_iter().for_each(|row| table.push(row));
    table.render(screen.width, screen.colors)
}
