//! Charts of a job over its run: utilization, memory and power of its devices, its use of hosts,
//! and the metrics that it reports, with the events of the job as marks.

use std::fmt::Write as _;
use std::ops::Range;

use gpool_model::Millis;
use gpool_wire::job_metrics::{self, JobMetric, JobMetrics};
use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Gpu, Job, JobEvent, Time};

use crate::plot::{Mark, Plot, SMALL, Scale, Times, Unit, area, line, whole};
use crate::text::{gib, percent, span, until};

/// More devices than this are not drawn.
const CHARTS_MAX: usize = 16;
/// Below this utilization a device is idle.
const UNUSED: f64 = 0.01;
/// Events closer than this are one mark, in thousandths of the width.
const NEAR: u64 = 7;

/// The charts of a device.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: String,
    pub now: String,
    pub lines: Vec<PlotLine>,
}

/// Charts with common times.
#[derive(Debug, Clone)]
pub struct ChartGroup {
    pub id: &'static str,
    pub title: &'static str,
    pub has_csv: bool,
    pub charts: Vec<Chart>,
    pub has_marks: bool,
}

/// One series of a device or job.
#[derive(Debug, Clone)]
pub struct PlotLine {
    pub what: String,
    pub text: String,
    pub plot: Plot,
}

/// The times and the events of charts.
struct Base<'a> {
    times: Times,
    marks: &'a [Mark],
}

/// A series with its name, its style and its measured values.
struct Series<'a> {
    what: &'a str,
    class: &'static str,
    values: &'a [Option<f64>],
    unit: Unit,
    /// The largest possible value.
    most: Option<f64>,
    text: Option<String>,
}

impl Base<'_> {
    /// The line of a series; `None` if nothing was measured.
    fn line(&self, of: &str, series: Series<'_>) -> Option<PlotLine> {
        let Series { what, class, values, unit, most, text } = series;
        let text = text?;
        let largest = values.iter().flatten().copied().fold(0.0, f64::max);
        let scale = match most {
            Some(most) => Scale::up_to(most, unit),
            None => Scale::to(largest, unit),
        };
        let label = format!("{what} of {of}: {text}");
        let points: Vec<_> = values.iter().map(|value| value.map(|it| (0.0, it))).collect();
        let plot = Plot::new(label, SMALL, scale, self.times);
        let plot = match class {
            "metric" => plot.with(class, line(values, scale, SMALL)),
            _ => plot.with(class, area(&points, scale, SMALL)),
        };
        let values = values.iter().map(|value| value.map(|it| unit.text(it)));
        Some(PlotLine { what: what.to_owned(), text, plot: plot.marked(self.marks).valued(values) })
    }
}

/// The charts of a job's devices, with its events.
pub fn of_gpus(
    job: &Job,
    gpus: &[Gpu],
    history: &GpuHistory,
    events: &[JobEvent],
    now: Time,
) -> ChartGroup {
    let n_points = history.gpus.iter().map(|gpu| gpu.utilization.len()).max().unwrap_or(0);
    let (start, step_s) = (history.start, history.step_s);
    let marks = marks(events, start, step_s * n_points as u64);
    let times = times(job, start, step_s, n_points);
    let base = Base { times, marks: &marks };
    ChartGroup {
        id: "gpus",
        title: "GPUs over time",
        has_csv: !history.gpus.is_empty(),
        charts: charts_of_gpus(job, gpus, history, now, &base),
        has_marks: !marks.is_empty(),
    }
}

fn times(job: &Job, start: Time, step_s: u64, n_points: usize) -> Times {
    let is_live = !job.state.is_end();
    Times { start_ms: start.0.get(), step_ms: 1000 * step_s, n_points, is_live }
}

/// The devices of a job that has started, each with its charts.
fn charts_of_gpus(
    job: &Job,
    gpus: &[Gpu],
    history: &GpuHistory,
    now: Time,
    base: &Base<'_>,
) -> Vec<Chart> {
    // The first and the last point also have times outside the run.
    let run = job.run.started_at.unwrap_or(now)..job.run.ended_at.unwrap_or(now);
    let steps = Steps { start: history.start, step_s: history.step_s, run };
    // A part of a GPU has no chart of its own: the device's is that of all its jobs.
    let whole = job.placement.iter().filter(|task| task.gpus.is_none());
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
        let name = format!("{}:{} {}", gpu.node, gpu.index, gpu.model_short);
        let lines = points.map(|it| lines(&name, it, gpu, &steps, base)).unwrap_or_default();
        Some(Chart { name, now, lines })
    };
    whole.flat_map(|task| &task.uuids).filter_map(chart).take(CHARTS_MAX).collect()
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
fn lines(of: &str, points: &GpuPoints, gpu: &Gpu, steps: &Steps, base: &Base<'_>) -> Vec<PlotLine> {
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
    let power = power.map(|(mean, most)| format!("mean {mean:.0} W, at most {most:.0} W"));
    let series =
        |what, class, values, unit, most, text| Series { what, class, values, unit, most, text };
    let all = [
        series("Utilization", "busy", &points.utilization[..], Unit::Percent, None, used),
        series("Memory", "other", &points.memory_used, Unit::Bytes, Some(memory), held),
        series("Power", "other", &points.power, Unit::Watts, None, power),
    ];
    all.into_iter().filter_map(|it| base.line(of, it)).collect()
}

/// The charts of a job's hosts and of the metrics that it reports, with its events. A job with
/// parts of GPUs has its own use of them here.
pub fn of_hosts(job: &Job, over_time: &JobMetrics, events: &[JobEvent]) -> ChartGroup {
    let JobMetrics { start, step_s, cpu, .. } = over_time;
    let n_points = cpu.len();
    let marks = marks(events, *start, step_s * n_points as u64);
    let base = Base { times: times(job, *start, *step_s, n_points), marks: &marks };
    ChartGroup {
        id: "hosts",
        title: "Hosts and metrics over time",
        has_csv: false,
        charts: charts_of_hosts(job, over_time, &base),
        has_marks: !marks.is_empty(),
    }
}

fn charts_of_hosts(job: &Job, over_time: &JobMetrics, base: &Base<'_>) -> Vec<Chart> {
    let JobMetrics { cpu, memory, read, written, metrics, .. } = over_time;
    let host = |of: &str, what: &'static str, class: &'static str, values: &[Option<f64>], unit| {
        let text = summary(values).map(|(mean, most): (f64, f64)| {
            format!("mean {}, at most {}", Unit::text(unit, mean), Unit::text(unit, most))
        });
        base.line(of, Series { what, class, values, unit, most: None, text })
    };
    let has_parts = job.placement.iter().any(|task| task.gpus.is_some());
    let parts = [
        host("the job", "Utilization", "busy", &over_time.gpu_utilization, Unit::Percent),
        host("the job", "Memory", "other", &over_time.gpu_memory, Unit::Bytes),
    ];
    let parts = parts.into_iter().filter(|_| has_parts);
    let hosts = [
        host("Hosts", "CPU", "busy", cpu, Unit::Cores),
        host("Hosts", "Memory with cached files", "other", memory, Unit::Bytes),
        host("Hosts", "Read", "other", read, Unit::Rate),
        host("Hosts", "Written", "other", written, Unit::Rate),
    ];
    let charts = [
        ("Its parts of GPUs", parts.flatten().collect::<Vec<PlotLine>>()),
        ("Hosts", hosts.into_iter().flatten().collect()),
        ("Metrics", metrics.iter().map(|it| metric(it, base)).collect()),
    ];
    let chart = |(name, lines): (&str, Vec<PlotLine>)| {
        (!lines.is_empty()).then(|| Chart { name: name.to_owned(), now: String::new(), lines })
    };
    charts.into_iter().filter_map(chart).collect()
}

/// A metric from its least to its largest value. A value holds until the next one.
fn metric(metric: &JobMetric, base: &Base<'_>) -> PlotLine {
    let known = || metric.points.iter().flatten().copied();
    let (least, most) = known()
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    let figure = |value: f64| job_metrics::figure(job_metrics::six_digits(value));
    let last = metric.last.map(|last| format!("{} now or last", figure(last)));
    let range = (most >= least).then(|| format!("from {} to {}", figure(least), figure(most)));
    let text: Vec<String> = last.into_iter().chain(range).collect();
    let (what, text) = (metric.name.clone(), text.join(", "));
    let scale = if most >= least { Scale::between(least, most) } else { Scale::between(0.0, 1.0) };
    let mut last = None;
    let held = metric.points.iter().map(|value| {
        last = value.or(last);
        last
    });
    let path = line(&held.collect::<Vec<_>>(), scale, SMALL);
    let plot = Plot::new(format!("{what} of Metrics: {text}"), SMALL, scale, base.times);
    let values = metric.points.iter().map(|value| value.map(figure));
    PlotLine { what, text, plot: plot.with("metric", path).marked(base.marks).valued(values) }
}

/// The mean and the largest of the measured values.
fn summary(values: &[Option<f64>]) -> Option<(f64, f64)> {
    let known = || values.iter().flatten();
    let n = u32::try_from(known().count()).ok().filter(|n| *n > 0)?;
    Some((known().sum::<f64>() / f64::from(n), known().copied().fold(0.0, f64::max)))
}

/// The events within seconds of a start. Events at one place are one mark.
fn marks(events: &[JobEvent], start: Time, all: u64) -> Vec<Mark> {
    let mut marks: Vec<(u64, Mark)> = Vec::new();
    let within = events.iter().filter(|event| event.time >= start && all > 0);
    for event in within {
        let at = until(event.time, start);
        if at > all {
            continue;
        }
        let x = at * 1000 / all;
        match marks.last_mut().filter(|(last, _)| x.saturating_sub(*last) < NEAR) {
            Some((_, last)) => last.text = format!("{}\n{}", last.text, event.text),
            None => {
                let mark = Mark { x: format!("{}.{}", x / 10, x % 10), text: event.text.clone() };
                marks.push((x, mark));
            }
        }
    }
    marks.into_iter().map(|(_, mark)| mark).collect()
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
