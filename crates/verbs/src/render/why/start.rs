//! When a waiting job starts, and which changes would let it start sooner.

use gpool_cli::render::clock::span;
use gpool_cli::render::eta::interval;
use gpool_cli::render::page::Page;
use gpool_cli::render::view::View;
use gpool_model::Millis;
use gpool_wire::{Alternative, Eta, Frees, Time, Why};
use unicode_width::UnicodeWidthStr as _;

use super::{INDENT, label, wrapped};

/// Most changes shown that would help.
const HELPS_MAX: usize = 6;
/// Most changes shown that would not help.
const NO_GAIN_MAX: usize = 4;
/// A forecast that is closer to the planned start is not shown.
const SAME: Millis = Millis::from_mins(1);
/// Most jobs named that must end first.
const FREES_MAX: usize = 3;

/// Adds the planned or expected start, and the jobs that must end first.
pub fn expected(page: &mut Page, why: &Why, view: &View<'_>) {
    let Some(eta) = &why.eta else {
        if let Some(missing) = &why.eta_missing {
            let none = if why.job.request.deadline.is_some() { "none" } else { "unknown" };
            let missing = view.clock.localized(missing, view.now);
            label(page, "Expected start", &format!("{none}: {missing}"));
        }
        return;
    };
    let after = frees(why, view);
    let Some(planned) = eta.planned_at.filter(|at| *at > view.now) else {
        return label(page, "Expected start", &format!("{}{after}", forecast(eta, why, view)));
    };
    let at = view.clock.short(planned, view.now);
    let left = planned.0.since(view.now.0);
    label(page, "Planned start", &format!("{at} (in {left}) or earlier{after}"));
    // Most jobs end before their time limits, and the plan goes by the limits.
    if eta.p50.is_some_and(|middle| planned.0.since(middle.0) > SAME) {
        label(page, "Expected start", &forecast(eta, why, view));
    }
}

/// The forecast: `15:30–16:09 (in about 1h15)`.
fn forecast(eta: &Eta, why: &Why, view: &View<'_>) -> String {
    let when = interval(eta, view);
    if eta.p90.is_some() && eta.p90 == why.job.request.begin && why.frees.is_empty() {
        return format!("{when}, its begin time");
    }
    let left = eta.p50.map(|at| at.0.since(view.now.0)).filter(|_| when != "now");
    let left = left.map(|left| match eta.p10 == eta.p90 {
        true => format!(" (in {left})"),
        false => format!(" (in about {left})"),
    });
    format!("{when}{}", left.unwrap_or_default())
}

/// The jobs that must end first: `, when your job 2 has ended`.
fn frees(why: &Why, view: &View<'_>) -> String {
    // A paused job has its GPUs itself.
    let frees: Vec<&Frees> = why.frees.iter().filter(|it| it.job != why.job.id).collect();
    let are_own = frees.iter().all(|it| it.user == view.me);
    let name = |it: &&Frees| match are_own {
        true => it.job.clone(),
        false => format!("{} ({})", it.job, view.user(&it.user)),
    };
    let named = frees.iter().take(FREES_MAX).map(name).collect::<Vec<_>>().join(", ");
    let your = if are_own { "your " } else { "" };
    match frees.len() {
        0 => String::new(),
        1 => format!(", when {your}job {named} has ended"),
        n if n <= FREES_MAX => format!(", when {your}jobs {named} have ended"),
        n => format!(", when {your}jobs {named} and {} more have ended", n - FREES_MAX),
    }
}

/// Adds changes that would make it start sooner, and the tried ones that would not.
pub fn sooner(page: &mut Page, why: &Why, view: &View<'_>) {
    let helps = why.alternatives.iter().filter(|it| it.helps).take(HELPS_MAX);
    let rows: Vec<[String; 3]> = helps.map(|it| row(it, &why.job.id, view)).collect();
    let others = why.alternatives.iter().filter(|it| !it.helps).take(NO_GAIN_MAX);
    let others: Vec<&str> = others.map(|it| it.flags.as_str()).collect();
    if rows.is_empty() {
        if !others.is_empty() {
            label(page, "No gain from", &others.join(", "));
        }
        return;
    }
    page.line("What would help");
    let width = |at: usize| rows.iter().map(|row| row[at].width()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    for [command, when, gain] in &rows {
        let gaps = (first - command.width(), second - when.width());
        let line = format!(
            "{INDENT}{command}{}   {when}{}   {gain}",
            " ".repeat(gaps.0),
            " ".repeat(gaps.1)
        );
        page.line(line.trim_end());
    }
    if !others.is_empty() {
        wrapped(page, INDENT, &format!("no gain: {}", others.join(", ")));
    }
}

/// The command, the new start and the gain.
fn row(it: &Alternative, id: &str, view: &View<'_>) -> [String; 3] {
    let command = match it.flags.starts_with("--") {
        true => format!("gpool edit {id} {}", it.flags),
        false => it.flags.clone(),
    };
    let when = it.eta.as_ref().map(|eta| match eta.p10 {
        None => "starts later".to_owned(),
        Some(Time(_)) => format!("starts {}", interval(eta, view)),
    });
    let gain = it.gain_s.map(|gain| format!("{} sooner", span(gain)));
    [command, when.unwrap_or_default(), gain.unwrap_or_default()]
}
