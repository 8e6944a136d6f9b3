//! Charts of projects over time: allocated, busy, guaranteed and waited for.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpool_wire::Time;
use gpool_wire::usage::UsageRow;

use crate::lines::{HEIGHT, WIDTH, path};
use crate::text::figure;

/// More projects than this are not drawn.
const PROJECTS_MAX: usize = 8;

/// The rows of projects for a chart.
#[derive(Debug, Clone, Copy)]
pub struct Course<'a> {
    /// GPU time by project and step.
    pub rows: &'a [UsageRow],
    /// The length of a step in seconds.
    pub step_s: u64,
    /// The time of the answer, in the last step.
    pub now: Time,
}

/// The chart of a project.
pub struct Chart {
    pub name: String,
    pub text: String,
    /// Areas, one behind the other: with waiting jobs, allocated, busy.
    pub waited: String,
    pub allocated: String,
    pub busy: String,
    /// A line.
    pub guaranteed: String,
}

/// GPUs in a step.
#[derive(Clone, Copy, Default)]
struct Gpus {
    allocated: f64,
    busy: f64,
    waited: f64,
    guaranteed: Option<f64>,
}

impl Course<'_> {
    /// The charts of the projects with most GPU time, on one scale.
    pub fn charts(&self) -> Vec<Chart> {
        let Some(first) = self.rows.iter().map(|row| row.start).min() else { return Vec::new() };
        let since = |at: Time| at.0.since(first.0).get() / 1000 / self.step_s.max(1);
        let n_steps = usize::try_from(since(self.now)).unwrap_or(0) + 1;
        let mut projects = BTreeMap::<String, Vec<Gpus>>::new();
        for row in self.rows {
            let Some(project) = row.project.as_ref().filter(|it| !it.is_empty()) else { continue };
            let new = || vec![Gpus::default(); n_steps];
            let steps = projects.entry(project.clone()).or_insert_with(new);
            let step = usize::try_from(since(row.start)).unwrap_or(usize::MAX);
            let Some(gpus) = steps.get_mut(step) else { continue };
            let hours = self.hours(row.start);
            gpus.allocated += row.gpu_hours / hours;
            gpus.busy += row.busy_gpu_hours.unwrap_or(0.0) / hours;
            gpus.waited += row.waited_gpu_hours / hours;
            gpus.guaranteed = row.guaranteed_gpu_hours.map(|it| it / hours);
        }
        let mut projects: Vec<_> = projects.into_iter().collect();
        let sum = |steps: &[Gpus]| steps.iter().map(|it| it.allocated + it.waited).sum::<f64>();
        // The sort is stable: equal projects stay in the order of their names.
        projects.sort_by(|(_, one), (_, other)| sum(other).total_cmp(&sum(one)));
        projects.truncate(PROJECTS_MAX);
        let all = projects.iter().flat_map(|(_, steps)| steps);
        let most = all.map(|it| (it.allocated + it.waited).max(it.guaranteed.unwrap_or(0.0)));
        let most = most.fold(0.0, f64::max);
        projects.iter().map(|(name, steps)| chart(name, steps, most)).collect()
    }

    /// The hours of a step; the last one is not over.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn hours(&self, start: Time) -> f64 {
        let passed_s = (self.now.0.since(start.0).get() / 1000).clamp(60, self.step_s.max(60));
        passed_s as f64 / 3600.0
    }
}

fn chart(name: &str, steps: &[Gpus], most: f64) -> Chart {
    let values = |of: fn(&Gpus) -> f64| -> Vec<Option<f64>> {
        steps.iter().map(|step| Some(of(step))).collect()
    };
    let mean = |of: fn(&Gpus) -> f64| {
        let n = u32::try_from(steps.len()).unwrap_or(u32::MAX).max(1);
        figure(steps.iter().map(of).sum::<f64>() / f64::from(n))
    };
    let guaranteed: Vec<Option<f64>> = steps.iter().map(|step| step.guaranteed).collect();
    let last = guaranteed.iter().flatten().next_back();
    let last = last.map_or_else(String::new, |it| format!(", {} guaranteed", figure(*it)));
    Chart {
        name: name.to_owned(),
        text: format!(
            "GPUs on average: {} allocated, {} busy, {} waited for{last}",
            mean(|it| it.allocated),
            mean(|it| it.busy),
            mean(|it| it.waited),
        ),
        waited: path(&values(|it| it.allocated + it.waited), most),
        allocated: path(&values(|it| it.allocated), most),
        busy: path(&values(|it| it.busy), most),
        guaranteed: line(&guaranteed, most),
    }
}

/// A line with a level for each step; it has gaps where nothing is known.
fn line(values: &[Option<f64>], most: f64) -> String {
    let mut text = String::new();
    let mut is_open = false;
    for (ix, value) in values.iter().enumerate() {
        let Some(value) = value.filter(|_| most > 0.0) else {
            is_open = false;
            continue;
        };
        let x = |ix: usize| ix * WIDTH / values.len();
        let y = HEIGHT - (value / most).clamp(0.0, 1.0) * HEIGHT;
        let start = if std::mem::replace(&mut is_open, true) { 'L' } else { 'M' };
        // Writing into a string can't fail.
        let _ = write!(text, "{start}{} {y:.1}L{} {y:.1}", x(ix), x(ix + 1));
    }
    text
}
