//! Waiting times of jobs: their distribution, and averages by number of GPUs and over time.

use gpool_trace::queue::{Outcome, Played};

use super::window::Window;
use super::{Figure, Grid, Key, USUAL, class_of, keys, percent};
use crate::render::plot::{Axis, Block, DAY, HOUR, Plot, Scale, plain};

/// Groups of GPU counts: the upper limit in thousandths, and the label. The first group is
/// fractions of a GPU.
const SIZES: [(u64, &str); 7] = [
    (999, "<1"),
    (1_000, "1"),
    (2_000, "2"),
    (4_000, "3–4"),
    (8_000, "5–8"),
    (16_000, "9–16"),
    (u64::MAX, ">16"),
];

/// The groups as lower limit, upper limit and label; without fractions if no job requests one.
fn sizes(played: &[(String, Outcome)]) -> Vec<(u64, u64, &'static str)> {
    let jobs = || played.iter().flat_map(|(_, outcome)| &outcome.jobs);
    let has_parts = jobs().any(|job| (1..1_000).contains(&job.gpus.get()));
    let mut least = 0;
    let shown = SIZES.into_iter().skip(usize::from(!has_parts));
    shown
        .map(|(most, text)| (std::mem::replace(&mut least, most.saturating_add(1)), most, text))
        .collect()
}

/// Most points of a line that are visible.
const N_POINTS: u32 = 240;

/// A unit for lengths of time.
#[derive(Debug, Clone, Copy)]
pub struct Unit {
    of: f64,
    name: &'static str,
    /// The name in sentences, for one and for several.
    words: (&'static str, &'static str),
}

impl Unit {
    /// The unit in which people write the longest value, in milliseconds.
    pub fn of(longest: f64) -> Self {
        let (of, name, words) = match longest {
            span if span >= 2.0 * DAY => (DAY, "d", ("day", "days")),
            span if span >= 2.0 * HOUR => (HOUR, "h", ("hour", "hours")),
            span if span >= 120_000.0 => (60_000.0, "min", ("minute", "minutes")),
            _ => (1_000.0, "s", ("second", "seconds")),
        };
        Self { of, name, words }
    }

    /// A length of time in this unit.
    pub fn text(self, span: f64) -> String {
        format!("{:.1} {}", span / self.of, self.name)
    }

    /// A length of time for a sentence, e.g. `3.5 hours`.
    pub fn words(self, span: f64) -> String {
        let number = format!("{:.1}", span / self.of);
        let number = number.strip_suffix(".0").unwrap_or(&number);
        format!("{number} {}", self.name_of(number))
    }

    /// Two lengths of time in this unit, with the fewest decimals that show a difference.
    pub fn pair(self, one: f64, other: f64) -> (String, String) {
        let (one, other) = (one / self.of, other / self.of);
        let least = usize::from(one.max(other) < 10.0);
        let texts = |n: usize| (format!("{one:.n$}"), format!("{other:.n$}"));
        let differ = (least..3).map(texts).find(|(one, other)| one != other);
        differ.unwrap_or_else(|| texts(least))
    }

    /// The name of the unit after a number.
    pub fn name_of(self, number: &str) -> &'static str {
        if number == "1" { self.words.0 } else { self.words.1 }
    }
}

/// A length of time, in milliseconds, in its own unit.
pub fn span(length: f64) -> String {
    Unit::of(length).text(length)
}

/// A length of time as it follows "each".
pub fn part_of_time(span: f64) -> String {
    let (of, name) = match span {
        span if span >= DAY => (DAY, "day"),
        span if span >= HOUR => (HOUR, "hour"),
        span if span >= 60_000.0 => (60_000.0, "minute"),
        _ => (1_000.0, "second"),
    };
    match span / of {
        1.0 => name.to_owned(),
        n => format!("{} {name}s", plain((n * 10.0).round() / 10.0)),
    }
}

/// The wait of a job in milliseconds.
pub fn wait(job: &Played) -> f64 {
    job.wait().get() as f64
}

/// The average wait of jobs.
pub fn mean<'a>(jobs: impl Iterator<Item = &'a Played>) -> Option<f64> {
    let (sum, n) = jobs.fold((0.0, 0.0), |(sum, n), job| (sum + wait(job), n + 1.0));
    (n > 0.0).then(|| sum / n)
}

/// The cumulative distribution of waits.
pub fn distribution(played: &[(String, Outcome)]) -> Figure {
    let sorted: Vec<Vec<f64>> = played
        .iter()
        .map(|(_, outcome)| {
            let mut waits: Vec<f64> = outcome.jobs.iter().map(wait).collect();
            waits.sort_unstable_by(f64::total_cmp);
            waits
        })
        .collect();
    let part = |waits: &[f64], span: f64| {
        let n = waits.partition_point(|wait| *wait <= span);
        n as f64 / waits.len().max(1) as f64
    };
    let longest = sorted.iter().filter_map(|waits| waits.last()).copied().fold(0.0, f64::max);
    let least = sorted.iter().map(|waits| part(waits, 1_000.0)).fold(1.0, f64::min);
    let from = ((least * 10.0).floor() / 10.0).min(0.9);
    let x = Axis::spans("waiting time (logarithmic)", longest);
    let y = Axis::percent("jobs", (from, 1.0), 5);
    let spans = [1_000.0, 60_000.0, 600_000.0, HOUR, 6.0 * HOUR, 24.0 * HOUR];
    let head = ["POLICY", "≤ 1 s", "≤ 1 min", "≤ 10 min", "≤ 1 h", "≤ 6 h", "≤ 1 d"];
    let mut grid = Grid {
        caption: "Jobs by waiting time".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        ..Grid::default()
    };
    let mut reports = Vec::new();
    for ((policy, _), waits) in played.iter().zip(&sorted) {
        let parts = spans.map(|span| percent(part(waits, span)));
        reports.push(format!(
            "with {policy} {} of the jobs wait at most a second, {} at most an hour",
            parts[0], parts[3]
        ));
        grid.rows.push(std::iter::once(policy.clone()).chain(parts).collect());
    }
    let summary = reports.join("; ");
    let mut plot = Plot::new(&grid.caption, &summary, USUAL, x, y);
    let last = (longest.max(10_000.0) * 1.2).ln();
    let first = 1_000_f64.ln();
    for (ix, waits) in sorted.iter().enumerate() {
        let at = |n: u32| (first + (last - first) * f64::from(n) / f64::from(N_POINTS)).exp();
        let points: Vec<(f64, f64)> = (0..=N_POINTS).map(|n| (at(n), part(waits, at(n)))).collect();
        plot.line(&class_of(ix), &points);
    }
    let text = match from {
        from if from > 0.0 => format!(
            "Percentage of jobs that wait at most this long; higher is better. The vertical axis \
             begins at {:.0} %: more jobs than that wait less than a second.",
            from * 100.0
        ),
        _ => "Percentage of jobs that wait at most this long; higher is better.".to_owned(),
    };
    let keys = keys(played.iter().map(|(policy, _)| policy.as_str()), Key::line);
    Figure::usual("Distribution of waiting times", text, keys, plot, grid)
}

/// Average waits by number of GPUs.
pub fn by_size(played: &[(String, Outcome)]) -> Figure {
    let sizes = sizes(played);
    let of_size = |outcome: &Outcome, (least, most, _): (u64, u64, &str)| {
        mean(outcome.jobs.iter().filter(|job| (least..=most).contains(&job.gpus.get())))
    };
    let of_sizes = |outcome: &Outcome| sizes.iter().map(|size| of_size(outcome, *size)).collect();
    let means: Vec<Vec<Option<f64>>> =
        played.iter().map(|(_, outcome)| of_sizes(outcome)).collect();
    let longest = means.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let unit = Unit::of(longest);
    let x = Axis {
        label: "GPUs of the job".to_owned(),
        scale: Scale::Linear(0.0, sizes.len() as f64),
        ticks: (0_u32..)
            .zip(&sizes)
            .map(|(ix, (_, _, text))| (f64::from(ix) + 0.5, (*text).to_owned()))
            .collect(),
    };
    let label = format!("average wait ({})", unit.words.1);
    let y = Axis::linear(&label, (0.0, longest / unit.of * 1.05), 5, plain);
    let mut grid = Grid {
        caption: "Average wait by number of GPUs".to_owned(),
        head: ["GPUS", "JOBS"].map(str::to_owned).to_vec(),
        ..Grid::default()
    };
    grid.head.extend(played.iter().map(|(policy, _)| policy.clone()));
    for (ix, (least, most, text)) in sizes.into_iter().enumerate() {
        let n = played.first().map_or(0, |(_, outcome)| {
            outcome.jobs.iter().filter(|job| (least..=most).contains(&job.gpus.get())).count()
        });
        let shown = |mean: Option<f64>| mean.map_or("-".to_owned(), span);
        let mut row = vec![text.to_owned(), n.to_string()];
        row.extend(means.iter().map(|means| shown(means[ix])));
        grid.rows.push(row);
    }
    let said = grid.rows.iter().filter(|row| row[1] != "0").map(|row| {
        let by =
            played.iter().zip(&row[2..]).map(|((policy, _), wait)| format!("{wait} with {policy}"));
        format!("{} GPUs: {}", row[0], by.collect::<Vec<_>>().join(", "))
    });
    let summary = said.collect::<Vec<_>>().join("; ");
    let mut plot = Plot::new(&grid.caption, &summary, USUAL, x, y);
    let width = 0.8 / played.len().max(1) as f64;
    for (policy, means) in means.iter().enumerate() {
        let blocks = (0_u32..).zip(means).filter_map(|(size, mean)| {
            let left = f64::from(size) + 0.1 + policy as f64 * width;
            let x = (left, left + width * 0.92);
            mean.map(|mean| Block { x, y: (0.0, mean / unit.of) })
        });
        plot.blocks(&class_of(policy), blocks);
    }
    let text = "Large jobs are few: the table has the number of jobs and the average wait of each \
                size."
        .to_owned();
    let keys = keys(played.iter().map(|(policy, _)| policy.as_str()), Key::area);
    Figure::usual("Average wait of small and large jobs", text, keys, plot, grid)
}

/// Average waits by time of submission.
pub fn over_time(played: &[(String, Outcome)], window: Window) -> Figure {
    let parts = window.parts((window.span / DAY).clamp(24.0, 180.0));
    let means: Vec<Vec<Option<f64>>> =
        played.iter().map(|(_, outcome)| means_of(outcome, window, &parts)).collect();
    let longest = means.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let unit = Unit::of(longest);
    let each = part_of_time(parts.first().map_or(0.0, |(from, to)| to - from));
    let x = Axis::time("the first submission", (0.0, window.span));
    let y = Axis::linear(
        &format!("average wait ({})", unit.words.1),
        (0.0, longest / unit.of * 1.05),
        5,
        plain,
    );
    let mut grid = Grid {
        caption: format!("Average wait of the jobs submitted in each {each}"),
        head: ["FROM", "JOBS"].map(str::to_owned).to_vec(),
        ..Grid::default()
    };
    grid.head.extend(played.iter().map(|(policy, _)| policy.clone()));
    let first: &[Played] = played.first().map_or(&[], |(_, outcome)| &outcome.jobs);
    for (ix, (from, _)) in parts.iter().enumerate() {
        let is = |job: &&Played| part_at(window.at(job.submitted_at), &parts) == ix;
        let (of, name) = if window.span > 2.0 * DAY { (DAY, "d") } else { (HOUR, "h") };
        let from = format!("{} {name}", plain((from / of * 100.0).round() / 100.0));
        let mut row = vec![from, first.iter().filter(is).count().to_string()];
        let text = |mean: Option<f64>| mean.map_or("-".to_owned(), span);
        row.extend(means.iter().map(|means| text(means[ix])));
        grid.rows.push(row);
    }
    let said = played.iter().zip(&means).map(|((policy, _), means)| {
        let most = means.iter().flatten().copied().fold(0.0, f64::max);
        let at = means.iter().position(|mean| *mean == Some(most)).unwrap_or(0);
        format!("with {policy} at most {}, from {} on", span(most), grid.rows[at][0])
    });
    let summary = said.collect::<Vec<_>>().join("; ");
    let mut plot = Plot::new(&grid.caption, &summary, USUAL, x, y);
    for (ix, means) in means.iter().enumerate() {
        let middle = |(from, to): (f64, f64)| f64::midpoint(from, to);
        let points = parts.iter().zip(means);
        let points = points.filter_map(|(part, it)| it.map(|it| (middle(*part), it / unit.of)));
        plot.line(&class_of(ix), &points.collect::<Vec<_>>());
    }
    let text = format!(
        "Average wait of the jobs submitted in each {each}. If a few peaks cause most of the \
         waiting, one trace predicts little about the next."
    );
    let keys = keys(played.iter().map(|(policy, _)| policy.as_str()), Key::line);
    Figure::usual("Average wait over time", text, keys, plot, grid)
}

/// The interval that contains a time; the end of the last one belongs to it.
fn part_at(at: f64, parts: &[(f64, f64)]) -> usize {
    parts.partition_point(|(_, to)| *to <= at).min(parts.len().saturating_sub(1))
}

fn means_of(outcome: &Outcome, window: Window, parts: &[(f64, f64)]) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0.0); parts.len()];
    for job in &outcome.jobs {
        let (sum, n) = &mut sums[part_at(window.at(job.submitted_at), parts)];
        *sum += wait(job);
        *n += 1.0;
    }
    sums.into_iter().map(|(sum, n)| (n > 0.0).then(|| sum / n)).collect()
}
