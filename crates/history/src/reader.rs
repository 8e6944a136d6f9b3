//! Charts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::block::{Block, PER_HOUR};
use crate::database::Database;
use crate::error::Error;
use crate::keys::{Level, PART, Stream};
use crate::names::{self, NameKind};
use crate::recent;
use crate::seal;
use crate::series::{DeviceSeries, Family, JobSeries, Scale};
use crate::time::{DAY, HOUR, Minute, Span, Step};

/// The most values of a chart, and the most sums of a report.
pub const CELLS_MAX: usize = 8 << 20;

/// Reads the store, from any thread. Each call opens the file anew, so that it sees a new file as
/// soon as there is one, and reads one state of it.
#[derive(Debug, Clone)]
pub struct Reader {
    path: PathBuf,
}

/// One value of a chart, in base units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The mean over the measured minutes.
    pub mean: f64,
    /// The largest minute.
    pub max: f64,
    /// Number of measured minutes.
    pub n_minutes: u32,
}

/// One line of a chart: a series of a device or job, or a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartLine {
    /// The device or job, or the name of the metric.
    pub name: String,
    /// The position of the series in the request.
    pub series_ix: usize,
    /// The points; `None` where nothing was measured.
    pub points: Vec<Option<Point>>,
}

/// Lines with common times.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The time of the first point.
    pub start: Minute,
    pub step: Step,
    /// The lines: for each name, all its series.
    pub lines: Vec<ChartLine>,
}

/// Values of metrics with their minutes, by element of an array and name.
pub type ElementValues = BTreeMap<(String, String), (Minute, f64)>;

impl Reader {
    /// A reader of the store in a file, which may come later.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Series of devices. An unknown device has lines without values. If the step is at least an
    /// hour, or a minute is no longer kept, hours are read.
    ///
    /// # Errors
    /// The file is missing, locked or damaged, or the chart is too large.
    pub fn devices(
        &self,
        devices: &[&str],
        series: &[DeviceSeries],
        span: Span,
        step: Step,
    ) -> Result<Chart, Error> {
        let columns: Vec<usize> = series.iter().map(|it| *it as usize).collect();
        self.named(Family::Device, devices, &columns, span, step)
    }

    /// Series of jobs, as for [`Reader::devices`].
    pub fn jobs(
        &self,
        jobs: &[&str],
        series: &[JobSeries],
        span: Span,
        step: Step,
    ) -> Result<Chart, Error> {
        let columns: Vec<usize> = series.iter().map(|it| *it as usize).collect();
        self.named(Family::Job, jobs, &columns, span, step)
    }

    /// All metrics of a job that its user reports.
    pub fn metrics(&self, job: &str, span: Span, step: Step) -> Result<Chart, Error> {
        let connection = self.connect()?;
        let metrics = names::metrics_of(&connection, job)?;
        let members = metrics.into_iter().map(|(n, name)| (Some(n), name)).collect();
        chart(&connection, Family::Metric, members, &[0], span, step)
    }

    /// The last value of each metric of a job, with its minute, by name. Where minutes are no
    /// longer kept, it is the mean of an hour.
    pub fn last_metrics(&self, job: &str) -> Result<BTreeMap<String, (Minute, f64)>, Error> {
        let connection = self.connect()?;
        last_values(&connection, names::metrics_of(&connection, job)?)
    }

    /// The same for each element of an array that has metrics, by element and name.
    pub fn last_metrics_of_elements(&self, array: &str) -> Result<ElementValues, Error> {
        let connection = self.connect()?;
        let metrics = names::metrics_of_elements(&connection, array)?;
        let metrics = metrics.into_iter().map(|(element, n, name)| (n, (element, name)));
        last_values(&connection, metrics.collect())
    }

    fn named(
        &self,
        family: Family,
        member_names: &[&str],
        columns: &[usize],
        span: Span,
        step: Step,
    ) -> Result<Chart, Error> {
        let connection = self.connect()?;
        let mut members = Vec::with_capacity(member_names.len());
        for &name in member_names {
            members
                .push((names::find(&connection, NameKind::from(family), name)?, name.to_owned()));
        }
        chart(&connection, family, members, columns, span, step)
    }

    /// Opens the file for one read of one state.
    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        let connection = Database::open_to_read(&self.path)?;
        connection.execute_batch("BEGIN")?;
        Ok(connection)
    }
}

/// The last value of each metric, with its minute, by a key of the caller.
fn last_values<K: Ord + Clone>(
    connection: &Connection,
    metrics: Vec<(u32, K)>,
) -> Result<BTreeMap<K, (Minute, f64)>, Error> {
    let mut parts = BTreeMap::<Span, Vec<(u32, K)>>::new();
    let of_hours = |first: u32, n: u32| {
        let from = Minute::of_hour(first);
        Span { from, to: from.after(n * HOUR) }
    };
    let unsealed =
        recent::pending(connection, Stream::Values(Family::Metric), 0..Minute::MAX.hour())?;
    let unsealed = unsealed.last().map(|it| of_hours(it.hour.saturating_sub(1), 2));
    for (n, key) in metrics {
        let day = names::last_day(connection, n)?.map(|day| of_hours(day * DAY, DAY));
        for span in day.into_iter().chain(unsealed) {
            parts.entry(span).or_default().push((n, key.clone()));
        }
    }
    let mut found = BTreeMap::new();
    // Later ones replace earlier ones.
    for (span, all) in parts {
        let n_at_once = CELLS_MAX / Step::MINUTE.n_points(span).max(1);
        for metrics in all.chunks(n_at_once.max(1)) {
            let members = metrics.iter().map(|(n, _)| (Some(*n), String::new())).collect();
            let chart = chart(connection, Family::Metric, members, &[0], span, Step::MINUTE)?;
            for ((_, key), line) in metrics.iter().zip(chart.lines) {
                let points = (0..).zip(&line.points);
                let known =
                    points.filter_map(|(at, point)| Some((span.from.after(at), (*point)?.mean)));
                found.extend(known.last().map(|last| (key.clone(), last)));
            }
        }
    }
    Ok(found)
}

fn chart(
    connection: &Connection,
    family: Family,
    members: Vec<(Option<u32>, String)>,
    columns: &[usize],
    span: Span,
    step: Step,
) -> Result<Chart, Error> {
    let n_points = step.n_points(span);
    let n_cells = members.len().saturating_mul(columns.len()).saturating_mul(n_points);
    if n_cells > CELLS_MAX {
        return Err(Error::TooWide { n_cells, limit: CELLS_MAX });
    }
    let sums = vec![Sum::default(); n_cells];
    let mut numbers: Vec<(u32, usize)> =
        members.iter().enumerate().filter_map(|(ix, (n, _))| Some(((*n)?, ix))).collect();
    numbers.sort_unstable();
    let mut drawing = Drawing { connection, family, columns, span, step, n_points, sums };
    for part in numbers.chunk_by(|(a, _), (b, _)| a / PART == b / PART) {
        drawing.part(part)?;
    }
    let mut sums = drawing.sums.chunks(n_points.max(1));
    let mut lines = Vec::with_capacity(members.len() * columns.len());
    for (_, name) in members {
        for series_ix in 0..columns.len() {
            let points = sums.next().unwrap_or_default().iter().map(Sum::point).collect();
            lines.push(ChartLine { name: name.clone(), series_ix, points });
        }
    }
    Ok(Chart { start: step.start(span), step, lines })
}

/// A point while it is summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: f64,
    max: f64,
    n_minutes: u32,
}

impl Sum {
    fn add(&mut self, mean: f64, max: f64, n_minutes: u32) {
        self.sum += mean * f64::from(n_minutes);
        self.max = if self.n_minutes == 0 { max } else { self.max.max(max) };
        self.n_minutes += n_minutes;
    }

    fn point(&self) -> Option<Point> {
        let n_minutes = self.n_minutes;
        let mean = self.sum / f64::from(n_minutes);
        (n_minutes > 0).then_some(Point { mean, max: self.max, n_minutes })
    }
}

/// A chart while it is read.
struct Drawing<'a> {
    connection: &'a Connection,
    family: Family,
    columns: &'a [usize],
    span: Span,
    step: Step,
    n_points: usize,
    /// By line and point.
    sums: Vec<Sum>,
}

impl Drawing<'_> {
    /// Adds the values of the members of one part: number and position in the request.
    fn part(&mut self, members: &[(u32, usize)]) -> Result<(), Error> {
        let stream = Stream::Values(self.family);
        let part = members.first().map_or(0, |(n, _)| n / PART);
        let wants = |n: u32| members.binary_search_by_key(&n, |(n, _)| *n).is_ok();
        let hours = self.span.hours();
        let mut unsealed = BTreeMap::new();
        for pending in recent::pending(self.connection, stream, hours.clone())? {
            if pending.part == part {
                let blocks = seal::merged(self.connection, self.family, pending, &wants)?;
                unsealed.insert(pending.hour, blocks);
            }
        }
        let (of_hour, of_day) = (Level::Minutes(self.family), Level::Hours(self.family));
        for &(n, ix) in members {
            let mut day: Option<(u32, Option<Block>)> = None;
            for hour in hours.clone() {
                let mut sealed = None;
                let recent = unsealed.get(&hour).and_then(|blocks| blocks.get(&n));
                if recent.is_none() && self.step.minutes() < HOUR {
                    sealed = seal::read(self.connection, of_hour, hour, n)?;
                }
                if let Some(block) = recent.or(sealed.as_ref()) {
                    self.minutes(block, hour, ix);
                    continue;
                }
                let known = day.take().filter(|(number, _)| *number == hour / DAY);
                let read = || seal::read(self.connection, of_day, hour, n);
                let block = known.map_or_else(read, |(_, block)| Ok(block))?;
                if let Some(block) = &block {
                    self.hour(block, hour, ix);
                }
                day = Some((hour / DAY, block));
            }
        }
        Ok(())
    }

    /// The lines of a member: first sum, column and scale.
    fn lines(&self, ix: usize) -> impl Iterator<Item = (usize, usize, Scale)> + use<'_> {
        let first = ix * self.columns.len();
        let line = move |(place, column): (usize, &usize)| {
            ((first + place) * self.n_points, *column, self.family.scales()[*column])
        };
        self.columns.iter().enumerate().map(line)
    }

    fn minutes(&mut self, block: &Block, hour: u32, ix: usize) {
        let lines: Vec<_> = self.lines(ix).collect();
        for (line, column, scale) in lines {
            for (at, code) in (0..).zip(block.slots(column)) {
                let Some(code) = code else { continue };
                let minute = Minute::of_hour(hour).after(at);
                if let Some(point) = self.step.point(self.span, minute) {
                    let value = scale.value(*code);
                    self.sums[line + point].add(value, value, 1);
                }
            }
        }
    }

    /// Adds an hour to its point, or if points are shorter, to all points of the hour.
    fn hour(&mut self, block: &Block, hour: u32, ix: usize) {
        let length = self.step.minutes().min(HOUR);
        let lines: Vec<_> = self.lines(ix).collect();
        for (line, column, scale) in lines {
            let value = |part: usize| block.slots(column * PER_HOUR + part)[(hour % DAY) as usize];
            let (Some(n_minutes), Some(mean), Some(max)) = (value(0), value(1), value(2)) else {
                continue;
            };
            let n_each = n_minutes.div_ceil(HOUR / length);
            for at in (0..HOUR).step_by(length as usize) {
                let start = Minute::of_hour(hour).after(at);
                // The first point may begin before the range.
                let minute = start.max(self.span.from.min(start.after(length - 1)));
                if let Some(point) = self.step.point(self.span, minute) {
                    self.sums[line + point].add(scale.value(mean), scale.value(max), n_each);
                }
            }
        }
    }
}
