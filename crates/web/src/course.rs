//! GPUs over time: busy, idle, waited for and guaranteed, of the cluster and of projects.

use gpool_model::Millis;
use gpool_wire::Time;
use gpool_wire::usage::{UsageHistory, UsagePoints};

use crate::plot::{LARGE, Plot, SMALL, Scale, Times, Unit, area, line};
use crate::text::figure;

/// More projects than this are not drawn.
const PROJECTS_MAX: usize = 8;

/// A chart with its name and its means.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: String,
    pub text: String,
    pub plot: Plot,
}

/// The points from the first recorded one on: time before it is not drawn.
fn recorded(history: &UsageHistory) -> UsageHistory {
    let known = history.cluster.allocated.iter().position(Option::is_some);
    let skipped = known.unwrap_or(history.cluster.allocated.len());
    let values = |values: &Vec<Option<f64>>| values.get(skipped..).unwrap_or_default().to_vec();
    let points = |it: &UsagePoints| UsagePoints {
        project: it.project.clone(),
        allocated: values(&it.allocated),
        busy: values(&it.busy),
        waiting: values(&it.waiting),
        guaranteed: values(&it.guaranteed),
    };
    let passed = history.step_s.saturating_mul(1000).saturating_mul(skipped as u64);
    UsageHistory {
        start: Time(history.start.0.after(Millis::new(passed))),
        step_s: history.step_s,
        cluster: points(&history.cluster),
        projects: history.projects.iter().map(points).collect(),
    }
}

/// The two charts of the cluster: its GPUs, and the GPUs that jobs wait for. Empty before the first
/// minute.
pub fn of_cluster(history: &UsageHistory) -> Vec<Chart> {
    let history = &recorded(history);
    let points = &history.cluster;
    if points.allocated.iter().all(Option::is_none) {
        return Vec::new();
    }
    let most = |values: &[Option<f64>]| values.iter().flatten().copied().fold(0.0, f64::max);
    let (all, waiting) = (most(&points.guaranteed), most(&points.waiting));
    let gpus = Drawing { history, points, scale: Scale::to(all, Unit::Gpus), height: LARGE };
    let waits = Drawing { history, points, scale: Scale::to(waiting, Unit::Gpus), height: LARGE };
    vec![gpus.held("GPUs", false), waits.waiting("Waiting for GPUs")]
}

/// The charts of the projects with most GPU time, on one scale.
pub fn of_projects(history: &UsageHistory) -> Vec<Chart> {
    let history = &recorded(history);
    let sum = |it: &UsagePoints| {
        let all = it.allocated.iter().zip(&it.waiting);
        all.map(|(held, waits)| held.unwrap_or(0.0) + waits.unwrap_or(0.0)).sum::<f64>()
    };
    let is_used = |it: &&UsagePoints| sum(it) > 0.0 || it.guaranteed.iter().flatten().any(|_| true);
    let mut projects: Vec<&UsagePoints> = history.projects.iter().filter(is_used).collect();
    // The sort is stable: equal projects stay in the order of their names.
    projects.sort_by(|one, other| sum(other).total_cmp(&sum(one)));
    projects.truncate(PROJECTS_MAX);
    let points = projects.iter().flat_map(|it| {
        let all = it.allocated.iter().zip(&it.waiting).zip(&it.guaranteed);
        all.map(|((held, waits), guaranteed)| {
            (held.unwrap_or(0.0) + waits.unwrap_or(0.0)).max(guaranteed.unwrap_or(0.0))
        })
    });
    let scale = Scale::to(points.fold(0.0, f64::max), Unit::Gpus);
    let drawing = |points| Drawing { history, points, scale, height: SMALL };
    projects
        .into_iter()
        .map(|it| drawing(it).held(it.project.as_deref().unwrap_or_default(), true))
        .collect()
}

struct Drawing<'a> {
    history: &'a UsageHistory,
    points: &'a UsagePoints,
    scale: Scale,
    height: usize,
}

impl Drawing<'_> {
    fn plot(&self, name: &str, text: &str) -> Plot {
        let times = Times {
            start_ms: self.history.start.0.get(),
            step_ms: 1000 * self.history.step_s,
            n_points: self.points.allocated.len(),
            is_live: true,
        };
        Plot::new(format!("{name}: {text}"), self.height, self.scale, times)
    }

    /// Busy, idle and guaranteed GPUs, and those that jobs wait for above them if asked for.
    fn held(&self, name: &str, has_waiting: bool) -> Chart {
        let UsagePoints { allocated, busy, waiting, guaranteed, .. } = self.points;
        let busy_at = |ix: usize| busy.get(ix).copied().flatten().unwrap_or(0.0);
        let waits_at = |ix: usize| waiting.get(ix).copied().flatten().unwrap_or(0.0);
        let between = |edges: &dyn Fn(usize, f64) -> (f64, f64)| {
            let points = allocated.iter().enumerate();
            let points: Vec<_> = points.map(|(ix, held)| held.map(|it| edges(ix, it))).collect();
            area(&points, self.scale, self.height)
        };
        let known = allocated.iter().flatten().count();
        let mean = |values: &[Option<f64>]| {
            let n = u32::try_from(known).unwrap_or(u32::MAX).max(1);
            figure(values.iter().flatten().sum::<f64>() / f64::from(n))
        };
        let mut text = format!("mean {} allocated, {} busy", mean(allocated), mean(busy));
        if has_waiting {
            text += &format!(", {} waited for", mean(waiting));
            let last = guaranteed.iter().flatten().next_back();
            text += &last.map(|it| format!(", {} guaranteed", figure(*it))).unwrap_or_default();
        }
        let mut plot = self.plot(name, &text);
        plot = plot.with("busy", between(&|ix, held| (0.0, busy_at(ix).min(held))));
        plot = plot.with("idle", between(&|ix, held| (busy_at(ix).min(held), held)));
        if has_waiting {
            plot = plot.with("wait", between(&|ix, held| (held, held + waits_at(ix))));
        }
        plot = plot.with("guarantee", line(guaranteed, self.scale, self.height));
        let values = allocated.iter().enumerate().map(|(ix, held)| {
            let held = (*held)?;
            let busy = busy_at(ix).min(held);
            let waits = if has_waiting { waits_at(ix) } else { 0.0 };
            let waits =
                if waits > 0.0 { format!(", {waits:.1} waited for") } else { String::new() };
            Some(format!("{busy:.1} busy, {:.1} idle{waits}", held - busy))
        });
        let plot = plot.valued(values);
        Chart { name: name.to_owned(), text, plot }
    }

    /// The GPUs that jobs wait for.
    fn waiting(&self, name: &str) -> Chart {
        let UsagePoints { waiting, .. } = self.points;
        let most = waiting.iter().flatten().copied().fold(0.0, f64::max);
        let last = waiting.iter().flatten().next_back().copied().unwrap_or(0.0);
        let short = |gpus: f64| Unit::Gpus.text(gpus);
        let text = format!("{} now, at most {}", short(last), short(most));
        let points: Vec<_> = waiting.iter().map(|value| value.map(|it| (0.0, it))).collect();
        let plot = self.plot(name, &text).with("wait", area(&points, self.scale, self.height));
        let plot = plot.valued(waiting.iter().map(|value| value.map(short)));
        Chart { name: name.to_owned(), text, plot }
    }
}
