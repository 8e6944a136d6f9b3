//! Measures the store through its interface.

use std::path::Path;
use std::time::Instant;

use gpool_cli::failure::Result;
use gpool_history::{
    Batch, DeviceSeries, Dimension, History, Minute, ReportQuery, Sample, Settings, Span, Step,
};
use rusqlite::Connection;

use super::fleet::{Fleet, START};
use super::{cpu_s, median_ms, of_store, writing};
use crate::bench::figure::Figure;

/// Hours of a month.
const MONTH: f64 = 720.0;

/// Writes hours and reads them.
pub fn measure(path: &Path, fleet: &Fleet, hours: u32) -> Result<Vec<Figure>> {
    let settings = Settings { bytes_max: 1 << 40, ..Settings::default() };
    let (mut history, _) = History::open(path, settings).map_err(of_store)?;
    let (mut used_s, mut longest_s) = (0.0, 0.0_f64);
    for minute in START..START + hours * 60 {
        let sample = |(ix, device)| Sample { device, values: fleet.values(ix, minute) };
        let devices = fleet.devices.iter().map(String::as_str);
        let samples: Vec<_> = (0..).zip(devices).map(sample).collect();
        let uses = fleet.uses(minute);
        let now = Minute::new(minute);
        let batch = Batch { devices: &samples, jobs: &[], uses: &uses };
        let (before_s, began) = (cpu_s(), Instant::now());
        history.append(now, now, &batch).map_err(of_store)?;
        history.maintain(now).map_err(of_store)?;
        used_s += cpu_s() - before_s;
        longest_s = longest_s.max(began.elapsed().as_secs_f64());
    }
    let before_s = cpu_s();
    let end = Minute::new(START + hours * 60 + 10);
    while history.maintain(end).map_err(of_store)?.more {}
    used_s += cpu_s() - before_s;
    let sizes = Sizes::read(path)?;
    let n_hours = f64::from(fleet.n_devices()) * f64::from(hours);
    let mut figures = writing(used_s, sizes.minutes, fleet, hours).to_vec();
    figures.extend([
        Figure::new(
            "history_device_hour_bytes",
            "bytes of a device-hour",
            sizes.hours / n_hours,
            "B",
        )
        .below(48.0),
        Figure::new(
            "history_totals_hour_bytes",
            "sums for reports in an hour",
            sizes.totals / f64::from(hours),
            "B",
        ),
        Figure::new("history_call_s", "the longest minute: append and maintain", longest_s, "s"),
    ]);
    figures.extend(reads(&history, fleet, hours)?);
    Ok(figures)
}

fn reads(history: &History, fleet: &Fleet, hours: u32) -> Result<Vec<Figure>> {
    let reader = history.reader();
    let span = Span { from: Minute::new(START), to: Minute::new(START + hours * 60) };
    let month = MONTH / f64::from(hours);
    let names: Vec<&str> = fleet.devices.iter().map(String::as_str).collect();
    let chart = |n: usize, every: usize, series: &[DeviceSeries], step: Step| {
        let some: Vec<&str> = names.iter().copied().step_by(every).take(n).collect();
        median_ms(|| reader.devices(&some, series, span, step).map(drop).map_err(of_store))
    };
    let report = |by: &[Dimension]| {
        let report = ReportQuery { span, step: Some(Step::HOUR), by, only: &[], n_groups: 100 };
        median_ms(|| reader.report(&report).map(drop).map_err(of_store))
    };
    let util = [DeviceSeries::Utilization];
    let day = Step::fitting(span, 1000);
    let one = chart(1, 1, &DeviceSeries::ALL, Step::MINUTE)? * month;
    let one_hours = chart(1, 1, &DeviceSeries::ALL, Step::HOUR)? * month;
    let near = chart(512, 1, &util, day)?;
    let far = chart(512, (names.len() / 512).max(1), &util, day)?;
    let by_project = report(&[Dimension::Project])? * month;
    let by_node = report(&[Dimension::Node])? * month;
    let times = format!("({month:.0} x measured)");
    Ok(vec![
        Figure::new(
            "history_device_month_ms",
            format!("a device, 30 days, all minutes {times}"),
            one,
            "ms",
        )
        .below(100.0),
        Figure::new(
            "history_device_month_hours_ms",
            format!("a device, 30 days by hour {times}"),
            one_hours,
            "ms",
        )
        .below(100.0),
        Figure::new("history_devices_day_ms", "512 devices of 64 nodes", near, "ms").below(300.0),
        Figure::new("history_devices_apart_ms", "512 devices of 512 nodes", far, "ms").below(300.0),
        Figure::new(
            "history_projects_month_ms",
            format!("30 days by project {times}"),
            by_project,
            "ms",
        )
        .below(1000.0),
        Figure::new("history_nodes_month_ms", format!("30 days by node {times}"), by_node, "ms"),
    ])
}

/// Bytes of the file by contents, with their share of the pages' free space.
struct Sizes {
    minutes: f64,
    hours: f64,
    totals: f64,
}

impl Sizes {
    fn read(path: &Path) -> Result<Self> {
        let read = || -> rusqlite::Result<Self> {
            let connection = Connection::open(path)?;
            // The first bits of a row ID are the level.
            let sql = "SELECT ifnull(sum(length(data)), 0) FROM block WHERE id >> 60 = ?1";
            let mut statement = connection.prepare(sql)?;
            let mut of = |level: i64| statement.query_row([level], |row| row.get::<_, f64>(0));
            let (minutes, hours, totals) = (of(0)?, of(3)?, of(6)? + of(7)?);
            let pages: f64 = connection.pragma_query_value(None, "page_count", |row| {
                row.get::<_, i64>(0).map(|n| n as f64)
            })?;
            let free: f64 = connection.pragma_query_value(None, "freelist_count", |row| {
                row.get::<_, i64>(0).map(|n| n as f64)
            })?;
            let page = 8192.0;
            let share = (pages - free) * page / (minutes + hours + totals).max(1.0);
            Ok(Self { minutes: minutes * share, hours: hours * share, totals: totals * share })
        };
        read().map_err(of_store)
    }
}
