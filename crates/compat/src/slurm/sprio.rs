//! `sprio`: the sort keys of pending jobs in the queue order.

use std::collections::BTreeMap;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Approximated, Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::render::clock::span;
use gpool_cli::render::list::natural;
use gpool_cli::session::Session;
use gpool_model::GpuRequest;
use gpool_model::job::JobState;
use gpool_wire::{Job, PolicyInfo, QuotaOverview};

use super::cells::{self, SlurmJobRow};
use super::format::{Column, Format};
use super::select::Filter;
use super::tres::n_places;
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("federation", '\0', Nothing, Ignored, "a server has one cluster"),
    row("format", 'o', Value, Covered, "all letters of Slurm; factors that gpool lacks are N/A"),
    row("jobs", 'j', Value, Covered, "7, 7_4, 7_[1-3], or SLURM_JOB_ID of an element"),
    row("json", '\0', Nothing, Instead, "gpool queue --json, with the keys of gpool"),
    row("local", '\0', Nothing, Covered, "a server has one cluster"),
    row("long", 'l', Nothing, Covered, "more columns"),
    row("noheader", 'h', Nothing, Covered, "no heads"),
    row("norm", 'n', Nothing, Covered, "factors are always from 0 to 1"),
    row("partition", 'p', Value, Covered, "in these pools"),
    row("sibling", '\0', Nothing, Ignored, "a server has one cluster"),
    row("sort", 'S', Value, Covered, "letters of --format; - before one reverses it"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("user", 'u', Value, Covered, "of these users"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row(
        "weights",
        'w',
        Nothing,
        Approximated,
        "1 for each factor: jobs are sorted by keys in turn",
    ),
    row("yaml", '\0', Nothing, Instead, "gpool queue --json, with the keys of gpool"),
];

pub static SPOKEN: Spoken = Spoken {
    name: "sprio",
    about: "Show the priority, wait, fair share and size of pending jobs",
    flags: &[FLAGS],
    words: "",
};

/// The columns: each letter is its own content.
static COLUMNS: &[Column<char>] = &[
    Column('i', "", "JOBID", 'i', "N/A"),
    Column('r', "", "PARTITION", 'r', "N/A"),
    Column('u', "", "USER", 'u', "N/A"),
    Column('o', "", "ACCOUNT", 'o', "N/A"),
    Column('c', "", "CLUSTER", 'c', "N/A"),
    Column('Y', "", "PRIORITY", 'Y', "N/A"),
    Column('y', "", "PRIORITY", 'y', "N/A"),
    Column('S', "", "SITE", 'S', "N/A"),
    Column('s', "", "SITE", 's', "N/A"),
    Column('A', "", "AGE", 'A', "N/A"),
    Column('a', "", "AGE", 'a', "N/A"),
    Column('B', "", "ASSOC", 'B', "N/A"),
    Column('b', "", "ASSOC", 'b', "N/A"),
    Column('F', "", "FAIRSHARE", 'F', "N/A"),
    Column('f', "", "FAIRSHARE", 'f', "N/A"),
    Column('J', "", "JOBSIZE", 'J', "N/A"),
    Column('j', "", "JOBSIZE", 'j', "N/A"),
    Column('P', "", "PARTITION", 'P', "N/A"),
    Column('p', "", "PARTITION", 'p', "N/A"),
    Column('Q', "", "QOS", 'Q', "N/A"),
    Column('q', "", "QOS", 'q', "N/A"),
    Column('n', "", "QOSNAME", 'n', "N/A"),
    Column('N', "", "NICE", 'N', "N/A"),
    Column('T', "", "TRES", 'T', "N/A"),
    Column('t', "", "TRES", 't', "N/A"),
];

const USUAL: &str = "%.15i %9r %.10Y %.10A %.10F %.10J";
const LONG: &str = "%.15i %9r %.8u %.10o %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %T";
const WEIGHTS: &str = "%.15i %9r %.10A %.10F %.10J";

/// The parts of the state that factors refer to.
pub struct Scale {
    /// The wait after which a job is escalated, in seconds.
    pub escalate_after_s: u64,
    pub gpus: f64,
    /// The fair share of each project, in GPUs.
    pub shares: BTreeMap<String, f64>,
}

impl Scale {
    pub fn of(policy: &PolicyInfo, quota: &QuotaOverview) -> Self {
        let share = |row: &gpool_wire::QuotaRow| Some((row.project.clone(), row.share?));
        Self {
            escalate_after_s: policy.escalate_after_s,
            gpus: quota.gpus,
            shares: quota.projects.iter().filter_map(share).collect(),
        }
    }
}

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    let usual = match (args.has("weights"), args.has("long")) {
        (true, _) => WEIGHTS,
        (false, true) => LONG,
        (false, false) => USUAL,
    };
    let format = Format::by_letters(args.value("format").unwrap_or(usual), COLUMNS);
    format.say_unknown("sprio", session);
    let with_heads = !args.has("noheader");
    if args.has("weights") {
        return print(&format.lines(with_heads, &[()], |letter, ()| weight(*letter)), session);
    }
    let filter = Filter::of(&args, "jobs", session)?;
    let client = session.client()?;
    let mut jobs = filter.rows(&client, false, false)?;
    jobs.retain(|job| job.state == JobState::Pending);
    let scale = Scale::of(&client.policy()?, &client.quota()?);
    let of = |letter: char, job: &Job| cell(letter, &SlurmJobRow::of(job, session), &scale);
    sort(&mut jobs, &args, of)?;
    print(&format.lines(with_heads, &jobs, |letter, job| of(*letter, job)), session)
}

/// The weight of a factor.
fn weight(letter: char) -> Option<String> {
    let text = match letter.to_ascii_uppercase() {
        'I' => "Weights",
        'A' | 'F' | 'J' => "1",
        _ => "",
    };
    Some(text.to_owned())
}

fn cell(letter: char, row: &SlurmJobRow<'_>, scale: &Scale) -> Option<String> {
    match letter {
        'i' => cells::id(row),
        'r' => cells::partition(row),
        'u' => cells::user(row),
        'o' => cells::account(row),
        'c' => cells::cluster(row),
        'Y' | 'y' => cells::priority(row),
        'N' => cells::nice(row),
        _ => factor(letter, row.job, scale).map(|factor| format!("{factor:.7}")),
    }
}

/// A factor from 0 to 1: the wait until a job is escalated, the fair share of its project and its
/// GPUs as parts of all GPUs.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn factor(letter: char, job: &Job, scale: &Scale) -> Option<f64> {
    let of_all = |gpus: f64| if scale.gpus > 0.0 { (gpus / scale.gpus).min(1.0) } else { 0.0 };
    match letter.to_ascii_uppercase() {
        'A' => {
            let waited_s = span(job.wait.waited_s).get() as f64 / 1000.0;
            Some((waited_s / scale.escalate_after_s.max(1) as f64).min(1.0))
        }
        'F' => scale.shares.get(&job.project).map(|share| of_all(*share)),
        'J' => {
            let size = GpuRequest::parse(job.request.gpus_text()).ok()?.size().get();
            Some(of_all(size as f64 / 1000.0 * n_places(job) as f64))
        }
        _ => None,
    }
}

fn sort(
    jobs: &mut [Job],
    args: &ParsedArgs,
    of: impl Fn(char, &Job) -> Option<String>,
) -> Result<()> {
    let keys: Vec<&str> = args.list("sort").collect();
    for key in keys.into_iter().rev() {
        let (letter, turned) = match key.strip_prefix(['-', '+']) {
            Some(letter) => (letter, key.starts_with('-')),
            None => (key, false),
        };
        let column = COLUMNS.iter().find(|column| letter == column.0.to_string());
        let Some(Column(letter, ..)) = column else { return Err(unsortable(key)) };
        jobs.sort_by(|a, b| {
            let (a, b) = (of(*letter, a).unwrap_or_default(), of(*letter, b).unwrap_or_default());
            let order = match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(a), Ok(b)) => a.total_cmp(&b),
                _ => natural(&a, &b),
            };
            if turned { order.reverse() } else { order }
        });
    }
    Ok(())
}

fn unsortable(key: &str) -> Failure {
    let what = format!("sprio can't sort by {key:?}");
    Failure::new(errors::BAD_COLUMN, what).tip("sprio --sort=-y,i")
}
