//! Charts of a job over its run: utilization, memory and power of its devices, its use of hosts,
//! and the metrics that it reports, with the events of the job as marks.

use std::fmt::Write as _;
use std::ops::Range;

use gpool_model::{Bytes, Millis};
use gpool_wire::job_metrics::{self, JobMetric, JobMetrics};
use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Gpu, Job, JobEvent, Time};

use crate::text::{gib, percent, span, until};

/// The size of a chart.
pub const WIDTH: usize = 600;
pub const HEIGHT: f64 = 48.0;
/// More devices than this are not drawn.
const CHARTS_MAX: usize = 16;
/// Below this utilization a device is idle.
const UNUSED: f64 = 0.01;
/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;
/// Events closer than this are one mark.
const NEAR: u64 = 4;

/// The charts of a device.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: String,
    pub now: String,
    pub lines: Vec<Line>,
}

/// Charts with common times.
#[derive(Debug, Clone)]
pub struct Group {
    pub id: &'static str,
    pub title: &'static str,
    pub has_csv: bool,
    /// The time of the first point, and between two points, in milliseconds.
    pub start_ms: u64,
    pub step_ms: u64,
    pub charts: Vec<Chart>,
    pub marks: Vec<Mark>,
}

/// One series of a device or job.
#[derive(Debug, Clone)]
pub struct Line {
    pub what: String,
    pub style: &'static str,
    /// The measured areas as one path.
    pub path: String,
    pub text: String,
    /// The values for people, separated by commas: `cursor.js` shows one of them.
    pub values: String,
    pub unit: &'static str,
}

/// A unit after a number, and its part of the base unit.
type Unit = (&'static str, f64);

/// An event at its place on the time axis.
#[derive(Debug, Clone)]
pub struct Mark {
    pub x: u64,
    pub text: String,
}

/// The charts of a job's devices, with its events.
pub fn of_gpus(
    job: &Job,
    gpus: &[Gpu],
    history: &GpuHistory,
    events: &[JobEvent],
    now: Time,
) -> Group {
    let n_points = history.gpus.iter().map(|gpu| gpu.utilization.len()).max().unwrap_or(0);
    Group {
        id: "gpus",
        title: "GPUs over time",
        has_csv: true,
        start_ms: history.start.0.get(),
        step_ms: 1000 * history.step_s,
        charts: charts_of_gpus(job, gpus, history, now),
        marks: marks(events, history.start, history.step_s * n_points as u64),
    }
}

/// The devices of a job that has started, each with its charts.
fn charts_of_gpus(job: &Job, gpus: &[Gpu], history: &GpuHistory, now: Time) -> Vec<Chart> {
    // The first and the last point also have times outside the run.
    let run = job.started_at.unwrap_or(now)..job.ended_at.unwrap_or(now);
    let steps = Steps { start: history.start, step_s: history.step_s, run };
    let uuids = job.placement.iter().flat_map(|task| &task.uuids);
    let chart = |uuid: &String| {
        let gpu = gpus.iter().find(|gpu| gpu.uuid == *uuid)?;
        let points = history.gpus.iter().find(|points| points.uuid == *uuid);
        let now = match (gpu.utilization.map(percent), gpu.memory_used) {
            _ if job.state.is_end() => String::new(),
            (Some(used), Some(memory)) => {
                format!("{used} % now, {} of {}", gib(memory), gib(gpu.memory_total))
            }
            (Some(used), None) => format!("{used} % now"),
            (None, _) => "use not known".to_owned(),
        };
        let lines = points.map(|it| lines(it, gpu, &steps)).unwrap_or_default();
        let name = format!("{}:{} {}", gpu.node, gpu.index, gpu.model_short);
        Some(Chart { name, now, lines })
    };
    uuids.filter_map(chart).take(CHARTS_MAX).collect()
}

/// The times of points, and the run of their job.
struct Steps {
    start: Time,
    step_s: u64,
    run: Range<Time>,
}

impl Steps {
    /// The seconds of a point that are within the run.
    fn seconds_in_run(&self, point: usize) -> u64 {
        let from = self.start.0.after(Millis::new(1000 * self.step_s * point as u64));
        let to = from.after(Millis::new(1000 * self.step_s));
        to.min(self.run.end.0).since(from.max(self.run.start.0)).get() / 1000
    }
}

/// The measured series of a device.
fn lines(points: &GpuPoints, gpu: &Gpu, steps: &Steps) -> Vec<Line> {
    #[expect(clippy::cast_precision_loss, reason = "the height of a chart")]
    let memory = gpu.memory_total as f64;
    let used = summary(&points.utilization).map(|(mean, _)| {
        let is_idle = |part: Option<f64>| part.is_some_and(|part| part < UNUSED);
        let points = points.utilization.iter().enumerate();
        let idle = points.filter(|(_, part)| is_idle(**part));
        let idle = match idle.map(|(at, _)| steps.seconds_in_run(at)).sum() {
            0 => "never idle".to_owned(),
            seconds => format!("idle {}", span(seconds)),
        };
        format!("mean {} %, {idle}", percent(mean))
    });
    let held = summary(&points.memory_used).map(|(mean, most)| {
        let [mean, most] = [mean, most].map(|it| gib(whole(it)));
        format!("mean {mean}, at most {most} of {}", gib(gpu.memory_total))
    });
    let power = summary(&points.power);
    let (most, power) = power.map_or((0.0, None), |(mean, most)| {
        (most, Some(format!("mean {mean:.0} W, at most {most:.0} W")))
    });
    type One<'p> = (&'static str, &'static str, &'p [Option<f64>], f64, Option<String>, Unit);
    let all: [One<'_>; 3] = [
        ("Utilization", "used", &points.utilization, 1.0, used, (" %", 100.0)),
        ("Memory", "memory", &points.memory_used, memory, held, (" GiB", 1.0 / GIB)),
        ("Power", "power", &points.power, most, power, (" W", 1.0)),
    ];
    let line = |(what, style, values, most, text, (unit, factor)): One<'_>| {
        let path = path(values, most);
        let what = what.to_owned();
        Some(Line { what, style, path, text: text?, values: numbers(values, factor), unit })
    };
    all.into_iter().filter_map(line).collect()
}

/// Values in a unit, as whole numbers separated by commas; nothing where none was measured.
fn numbers(values: &[Option<f64>], factor: f64) -> String {
    figures(values, &|value| format!("{:.0}", value * factor))
}

/// Values as people read them, separated by commas.
fn figures(values: &[Option<f64>], figure: &dyn Fn(f64) -> String) -> String {
    values.iter().map(|it| it.map_or_else(String::new, figure)).collect::<Vec<_>>().join(",")
}

/// The charts of a job's hosts and of the metrics that it reports, with its events.
pub fn of_hosts(over_time: &JobMetrics, events: &[JobEvent]) -> Group {
    let JobMetrics { start, step_s, cpu, .. } = over_time;
    Group {
        id: "hosts",
        title: "Hosts and metrics over time",
        has_csv: false,
        start_ms: start.0.get(),
        step_ms: 1000 * step_s,
        charts: charts_of_hosts(over_time),
        marks: marks(events, *start, step_s * cpu.len() as u64),
    }
}

fn charts_of_hosts(over_time: &JobMetrics) -> Vec<Chart> {
    let JobMetrics { cpu, memory, read, written, metrics, .. } = over_time;
    let cores = |value: f64| format!("{value:.1} cores");
    let bytes = |value: f64| Bytes::new(whole(value)).to_string();
    let rate = |value: f64| format!("{} a second", Bytes::new(whole(value)));
    let hosts = [
        host("CPU", "used", cpu, &cores),
        host("Memory with cached files", "memory", memory, &bytes),
        host("Read", "power", read, &rate),
        host("Written", "power", written, &rate),
    ];
    let charts = [
        ("Hosts", hosts.into_iter().flatten().collect::<Vec<Line>>()),
        ("Metrics", metrics.iter().map(metric).collect()),
    ];
    let chart = |(name, lines): (&str, Vec<Line>)| {
        (!lines.is_empty()).then(|| Chart { name: name.to_owned(), now: String::new(), lines })
    };
    charts.into_iter().filter_map(chart).collect()
}

fn host(
    what: &str,
    style: &'static str,
    values: &[Option<f64>],
    figure: &dyn Fn(f64) -> String,
) -> Option<Line> {
    let (mean, most) = summary(values)?;
    let text = format!("mean {}, at most {}", figure(mean), figure(most));
    let path = path(values, most);
    let (what, values) = (what.to_owned(), figures(values, figure));
    Some(Line { what, style, path, text, values, unit: "" })
}

/// A metric from its least to its largest value. A value holds until the next one.
fn metric(metric: &JobMetric) -> Line {
    let known = || metric.points.iter().flatten().copied();
    let (least, most) = known()
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let mut last = None;
    let held = metric.points.iter().map(|value| {
        last = value.or(last);
        // A tenth of the height stays below the least value.
        last.map(
            |value| if most > least { 0.1 + 0.9 * (value - least) / (most - least) } else { 0.5 },
        )
    });
    let path = path(&held.collect::<Vec<_>>(), 1.0);
    let figure = |value: f64| job_metrics::figure(job_metrics::six_digits(value));
    let last = metric.last.map(|last| format!("{} now or last", figure(last)));
    let range = (most >= least).then(|| format!("from {} to {}", figure(least), figure(most)));
    let text: Vec<String> = last.into_iter().chain(range).collect();
    let (what, text) = (metric.name.clone(), text.join(", "));
    Line { what, style: "used", path, text, values: figures(&metric.points, &figure), unit: "" }
}

/// The mean and the largest of the measured values.
fn summary(values: &[Option<f64>]) -> Option<(f64, f64)> {
    let known = || values.iter().flatten();
    let n = u32::try_from(known().count()).ok().filter(|n| *n > 0)?;
    Some((known().sum::<f64>() / f64::from(n), known().copied().fold(0.0, f64::max)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, which are not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

/// Areas of neighbors that were measured; a single point is a step wide.
pub fn path(values: &[Option<f64>], most: f64) -> String {
    let mut path = String::new();
    let mut at = 0;
    for run in values.chunk_by(|one, next| one.is_some() == next.is_some()) {
        if run[0].is_some() {
            let x = |ix: usize| ix * WIDTH / values.len();
            // Writing into a string can't fail.
            let _ = write!(path, "M{} {HEIGHT}", x(at));
            for (ix, value) in run.iter().flatten().enumerate() {
                let part = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
                let y = HEIGHT - part * HEIGHT;
                let _ = write!(path, "L{} {y:.1}L{} {y:.1}", x(at + ix), x(at + ix + 1));
            }
            let _ = write!(path, "L{} {HEIGHT}z", x(at + run.len()));
        }
        at += run.len();
    }
    path
}

/// The events within seconds of a start. Events at one place are one mark.
fn marks(events: &[JobEvent], start: Time, all: u64) -> Vec<Mark> {
    let mut marks: Vec<Mark> = Vec::new();
    let within = events.iter().filter(|event| event.time >= start && all > 0);
    for event in within {
        let at = until(event.time, start);
        if at > all {
            continue;
        }
        let x = at * WIDTH as u64 / all;
        match marks.last_mut().filter(|last| x.saturating_sub(last.x) < NEAR) {
            Some(last) => last.text = format!("{}\n{}", last.text, event.text),
            None => marks.push(Mark { x, text: event.text.clone() }),
        }
    }
    marks
}

/// The charts as a table: a line for each device and time.
pub fn csv(history: &GpuHistory) -> String {
    let mut text = "time,gpu,utilization,memory_used_bytes,power_watts\n".to_owned();
    let value = |values: &[Option<f64>], ix: usize, places: usize| {
        let value = values.get(ix).copied().flatten();
        value.map_or_else(String::new, |value| format!("{value:.places$}"))
    };
    for gpu in &history.gpus {
        for ix in 0..gpu.utilization.len() {
            let used = value(&gpu.utilization, ix, 3);
            let memory = value(&gpu.memory_used, ix, 0);
            let power = value(&gpu.power, ix, 0);
            if used.is_empty() && memory.is_empty() && power.is_empty() {
                continue;
            }
            let seconds = Millis::new(1000 * history.step_s * ix as u64);
            let at = gpool_wire::Time(history.start.0.after(seconds));
            // Writing into a string can't fail.
            let _ = writeln!(text, "{at},{}:{},{used},{memory},{power}", gpu.node, gpu.index);
        }
    }
    text
}
