//! When a job did not use its GPUs: before its first kernel, between kernels, or after its last.
//! Pure.

use gpool_history::Point;

/// Below this utilization, no work of the job ran.
const WORK: f64 = 0.005;
/// A running job without work for this many minutes is dead: it will likely not go on by itself.
const DEAD_MINUTES: u32 = 30;

/// Parts of the idle time of a job, which add up to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct IdleParts {
    /// Before its first kernel.
    pub start: f64,
    /// Between its kernels, such as while it waits for data.
    pub between: f64,
    /// After its last kernel, until it ended by itself.
    pub tail: f64,
    /// After its last kernel, if it did not end by itself, or still runs after half an hour.
    pub dead: f64,
}

/// How a job ended, or that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    Runs,
    ByItself,
    /// It was ended: by its limit, a user or a fault.
    ByOthers,
}

/// Splits the idle time of a job by its utilization over time; `None` if it had none.
#[must_use]
pub fn parts(points: &[Option<Point>], ended: JobOutcome) -> Option<IdleParts> {
    let known: Vec<Point> = points.iter().flatten().copied().collect();
    let works = |point: &Point| point.mean >= WORK;
    let first = known.iter().position(works);
    let last = known.iter().rposition(works);
    let mut sums = IdleParts::default();
    let idle_after: u32 =
        known.iter().skip(last.map_or(0, |last| last + 1)).map(|it| it.n_minutes).sum();
    for (ix, point) in known.iter().enumerate() {
        let idle = f64::from(point.n_minutes) * (1.0 - point.mean).clamp(0.0, 1.0);
        let part = match (first, last) {
            (Some(first), _) if ix < first => &mut sums.start,
            (_, Some(last)) if ix <= last => &mut sums.between,
            _ => match (ended, last) {
                (JobOutcome::ByItself, Some(_)) => &mut sums.tail,
                (JobOutcome::Runs, Some(_)) if idle_after < DEAD_MINUTES => &mut sums.between,
                // It has not come to its work yet.
                (JobOutcome::Runs, None) if idle_after < DEAD_MINUTES => &mut sums.start,
                _ => &mut sums.dead,
            },
        };
        *part += idle;
    }
    let IdleParts { start, between, tail, dead } = sums;
    let all = start + between + tail + dead;
    let of = |part: f64| part / all;
    (all > 0.0).then(|| IdleParts {
        start: of(start),
        between: of(between),
        tail: of(tail),
        dead: of(dead),
    })
}
