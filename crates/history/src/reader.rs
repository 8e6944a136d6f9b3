//! Charts.

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::block::{Block, PER_HOUR};
use crate::codec::{ABSENT, Packer};
use crate::database::Database;
use crate::error::Error;
use crate::keys::{GROUP, Level, PART, Pending, Stream};
use crate::names::{self, Kind};
use crate::recent;
use crate::seal;
use crate::series::{DeviceSeries, Family, JobSeries, Scale};
use crate::time::{HOUR, Minute, Span, Step};

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
pub struct Line {
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
    /// The distance of the points.
    pub step: Step,
    /// The lines: for each name, all its series.
    pub lines: Vec<Line>,
}

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
    ///
    /// # Errors
    /// As for [`Reader::devices`].
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
    ///
    /// # Errors
    /// As for [`Reader::devices`].
    pub fn metrics(&self, job: &str, span: Span, step: Step) -> Result<Chart, Error> {
        let connection = self.connect()?;
        let metrics = names::metrics_of(&connection, job)?;
        let members = metrics.into_iter().map(|(n, name)| (Some(n), name)).collect();
        chart(&connection, Family::Metric, members, &[0], span, step)
    }

    fn named(
        &self,
        family: Family,
        wanted: &[&str],
        columns: &[usize],
        span: Span,
        step: Step,
    ) -> Result<Chart, Error> {
        let connection = self.connect()?;
        let mut members = Vec::with_capacity(wanted.len());
        for &name in wanted {
            members.push((names::find(&connection, Kind::from(family), name)?, name.to_owned()));
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
    let mut sums = vec![Sum::default(); n_cells];
    let mut numbers: Vec<(u32, usize)> =
        members.iter().enumerate().filter_map(|(ix, (n, _))| Some(((*n)?, ix))).collect();
    numbers.sort_unstable();
    let mut drawing =
        Drawing { connection, packer: Packer::new()?, family, columns, span, step, n_points };
    for part in numbers.chunk_by(|(a, _), (b, _)| a / PART == b / PART) {
        drawing.part(part, &mut sums)?;
    }
    let mut sums = sums.chunks(n_points.max(1));
    let mut lines = Vec::with_capacity(members.len() * columns.len());
    for (_, name) in members {
        for series_ix in 0..columns.len() {
            let points = sums.next().unwrap_or_default().iter().map(Sum::point).collect();
            lines.push(Line { name: name.clone(), series_ix, points });
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
    packer: Packer,
    family: Family,
    columns: &'a [usize],
    span: Span,
    step: Step,
    n_points: usize,
}

impl Drawing<'_> {
    /// Adds the values of the members of one part: number and position in the request.
    fn part(&mut self, members: &[(u32, usize)], sums: &mut [Sum]) -> Result<(), Error> {
        let stream = Stream::Values(self.family);
        let part = members.first().map_or(0, |(n, _)| n / PART);
        let hours = self.span.hours();
        let unsealed = recent::pending(self.connection, stream, hours.clone())?;
        let wants = |n: u32| members.binary_search_by_key(&n, |(n, _)| *n).is_ok();
        let mut of_day = Vec::new();
        for hour in hours {
            let pending = Pending { stream, hour, part };
            let mut merged = if unsealed.contains(&pending) {
                seal::merged(self.connection, &mut self.packer, self.family, pending, &wants)?
            } else {
                Default::default()
            };
            // The hours of a day are in one block.
            let is_new_day = hour % Level::Hours(self.family).hours() == 0;
            if is_new_day || of_day.is_empty() {
                of_day.clear();
                of_day.resize_with(members.len(), || None);
            }
            for (ix, group) in members.chunk_by(|(a, _), (b, _)| a / GROUP == b / GROUP).enumerate()
            {
                let n = group.first().map_or(0, |(n, _)| n / GROUP);
                let mut minutes = merged.remove(&n);
                if minutes.is_none() && self.step.minutes() < HOUR {
                    let level = Level::Minutes(self.family);
                    minutes = self.read(level, hour, n)?;
                }
                if let Some(block) = minutes {
                    self.minutes(&block, hour, group, sums);
                    continue;
                }
                if of_day[ix].is_none() {
                    of_day[ix] = Some(self.read(Level::Hours(self.family), hour, n)?);
                }
                if let Some(Some(block)) = &of_day[ix] {
                    self.hour(block, hour, group, sums);
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, level: Level, hour: u32, group: u32) -> Result<Option<Block>, Error> {
        seal::read(self.connection, &mut self.packer, level, hour, group, false)
    }

    fn each_line(&self, group: &[(u32, usize)], see: &mut dyn FnMut(usize, usize, usize, Scale)) {
        for &(n, ix) in group {
            for (place, &column) in self.columns.iter().enumerate() {
                let line = (ix * self.columns.len() + place) * self.n_points;
                see((n % GROUP) as usize, line, column, self.family.scales()[column]);
            }
        }
    }

    fn minutes(&self, block: &Block, hour: u32, group: &[(u32, usize)], sums: &mut [Sum]) {
        self.each_line(group, &mut |member, line, column, scale| {
            for (at, &code) in (0..).zip(block.slots(column, member)) {
                if code == ABSENT {
                    continue;
                }
                let minute = Minute::of_hour(hour).after(at);
                if let Some(point) = self.step.point(self.span, minute) {
                    let value = scale.value(code);
                    sums[line + point].add(value, value, 1);
                }
            }
        });
    }

    /// Adds an hour to its point, or if points are shorter, to all points of the hour.
    fn hour(&self, block: &Block, hour: u32, group: &[(u32, usize)], sums: &mut [Sum]) {
        let slot = (hour % Level::Hours(self.family).hours()) as usize;
        let start = Minute::of_hour(hour);
        let length = self.step.minutes().min(HOUR);
        self.each_line(group, &mut |member, line, column, scale| {
            let value = |part: usize| block.slots(column * PER_HOUR + part, member)[slot];
            let (n_minutes, mean, max) = (value(0), value(1), value(2));
            if n_minutes == ABSENT || n_minutes == 0 {
                return;
            }
            let n_each = n_minutes.div_ceil(HOUR / length);
            for at in (0..HOUR).step_by(length as usize) {
                // The first hour may begin before the range.
                let minute = start.after(at).max(self.span.from.min(start.after(at + length - 1)));
                if let Some(point) = self.step.point(self.span, minute) {
                    sums[line + point].add(scale.value(mean), scale.value(max), n_each);
                }
            }
        });
    }
}
