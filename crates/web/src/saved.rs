//! Pages that stand alone, as files to store or send: the style is in the page, and the page loads
//! nothing.

use askama::Template;
use gpool_wire::usage::GpuHistory;
use gpool_wire::{Gpu, JobEvent, Report, Time};

use crate::bars::Bars;
use crate::job::{RequestUse, notes, nothing_used, rows, used};
use crate::jobs::style;
use crate::lines::{self, ChartGroup};
use crate::{asset, render};

#[derive(Debug, Clone, Copy)]
pub struct SavedTable<'a> {
    pub title: &'a str,
    /// The command that wrote it, and the time.
    pub about: &'a str,
    pub heads: &'a [String],
    pub rows: &'a [Vec<String>],
    pub bars: Option<&'a Bars>,
    /// Lines below the table.
    pub notes: &'a str,
}

#[derive(Template)]
#[template(path = "saved_table.html")]
struct TablePage<'a> {
    css: &'static str,
    title: &'a str,
    about: &'a str,
    heads: &'a [String],
    rows: Vec<(&'a [String], Option<[f64; 3]>)>,
    legend: Option<[&'static str; 3]>,
    has_energy: bool,
    notes: Vec<&'a str>,
}

impl SavedTable<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let bar = |ix: usize| self.bars.and_then(|bars| bars.rows.get(ix)).copied();
        let page = TablePage {
            css: css(),
            title: self.title,
            about: self.about,
            heads: self.heads,
            rows: self.rows.iter().enumerate().map(|(ix, row)| (&row[..], bar(ix))).collect(),
            legend: self.bars.map(|bars| bars.parts),
            has_energy: self.bars.is_some_and(|bars| bars.parts[2] == "energy"),
            notes: self.notes.lines().collect(),
        };
        file(&page)
    }
}

/// A job of a page with reports.
#[derive(Debug, Clone, Copy)]
pub struct SavedJob<'a> {
    /// The job with its use.
    pub report: &'a Report,
    /// Its events, oldest first.
    pub events: &'a [JobEvent],
    /// All devices.
    pub gpus: &'a [Gpu],
    /// Their utilization, memory and power while the job ran.
    pub history: &'a GpuHistory,
}

struct JobSection<'a> {
    id: &'a str,
    name: &'a str,
    state: &'a str,
    style: &'static str,
    rows: Vec<(String, String)>,
    used: Vec<RequestUse>,
    notes: Vec<String>,
    nothing_used: &'static str,
    group: ChartGroup,
}

#[derive(Template)]
#[template(path = "saved_jobs.html")]
struct JobsPage<'a> {
    css: &'static str,
    title: &'static str,
    about: &'a str,
    jobs: Vec<JobSection<'a>>,
}

/// A page with the reports of jobs.
#[must_use]
pub fn saved_jobs(jobs: &[SavedJob<'_>], about: &str, now: Time) -> String {
    let jobs = jobs.iter().map(|job| job_section(job, now)).collect();
    file(&JobsPage { css: css(), title: "Use of jobs", about, jobs })
}

fn job_section<'a>(job: &SavedJob<'a>, now: Time) -> JobSection<'a> {
    let SavedJob { report, events, gpus, history } = *job;
    JobSection {
        id: &report.job.id,
        name: &report.job.name,
        state: report.job.state.as_str(),
        style: style(report.job.state),
        rows: rows(&report.job, now),
        used: used(report),
        notes: notes(report),
        nothing_used: nothing_used(&report.job),
        group: lines::of_gpus(&report.job, gpus, history, events, now),
    }
}

/// The page as a text file: its last line ends.
fn file(page: &dyn askama::DynTemplate) -> String {
    render(page) + "\n"
}

fn css() -> &'static str {
    asset("style.css").map_or("", |it| it.text)
}
