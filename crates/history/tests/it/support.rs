//! A store in a temporary folder, and values that follow from the device and minute.

use std::path::PathBuf;

use gpool_history::{
    Appended, Batch, Chart, DeviceSeries, History, Minute, Sample, Settings, Span, Step,
};
use tempfile::TempDir;

/// 2026-01-01 00:00 UTC.
pub fn start() -> Minute {
    Minute::from_unix_seconds(1_767_225_600)
}

/// A path for a store, removed at the end.
pub struct Place {
    dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("history.db")
    }

    /// Opens the store, which must be sound or new.
    pub fn open(&self) -> History {
        self.open_with(Settings::default())
    }

    pub fn open_with(&self, settings: Settings) -> History {
        let (history, recreated) = History::open(&self.path(), settings).unwrap();
        assert_eq!(recreated, None);
        history
    }
}

/// A device with one value in each series, or with none.
pub fn sample(device: &str, value: Option<f64>) -> Sample<'_> {
    let mut values = [None; DeviceSeries::N];
    values[DeviceSeries::Utilization as usize] = value;
    values[DeviceSeries::Power as usize] = value.map(|value| 100.0 + value * 600.0);
    Sample { device, values }
}

/// Appends a device's minute at that time.
pub fn append(history: &mut History, minute: Minute, device: &str, value: f64) -> Appended {
    append_all(history, minute, &[sample(device, Some(value))])
}

pub fn append_all(history: &mut History, minute: Minute, samples: &[Sample<'_>]) -> Appended {
    let batch = Batch { devices: samples, ..Batch::default() };
    history.append(minute, minute, &batch).unwrap()
}

/// Maintains until nothing is left to do.
pub fn settle(history: &mut History, now: Minute) {
    while history.maintain(now).unwrap().more {}
}

pub fn span(from: Minute, minutes: u32) -> Span {
    Span { from, to: from.after(minutes) }
}

/// The utilization of a device by minute, from the start.
pub fn minutes(history: &History, device: &str, n: u32) -> Vec<Option<f64>> {
    let series = [DeviceSeries::Utilization];
    let chart =
        history.reader().devices(&[device], &series, span(start(), n), Step::MINUTE).unwrap();
    means(&chart, 0)
}

/// The means of a line, to three digits.
pub fn means(chart: &Chart, line: usize) -> Vec<Option<f64>> {
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    chart.lines[line].points.iter().map(|point| point.map(|it| round(it.mean))).collect()
}

/// A value between 0 and 1 in steps of 0.05.
pub fn wave(n: u32) -> f64 {
    f64::from(n * 7 % 21) * 0.05
}
