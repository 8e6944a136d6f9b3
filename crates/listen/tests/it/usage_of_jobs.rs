//! The hosts and metrics of jobs over time.

use gpool_history::{Batch, History, JobSample, JobSeries, Minute, Point, Settings};
use gpool_insight::usage::UsageHistory;
use gpool_insight::usage::grid::Grid;
use gpool_insight::usage::hosts::{HostUse, Readings, Running};
use gpool_insight::usage::minutes::{JobReading, Minutes, UsageSnapshot};
use gpool_model::{Attempt, JobId, NodeName, TaskId, Timestamp};
use gpool_wire::live_usage::LiveUsage;

const START: u32 = 29_000_000;

#[test]
fn a_minute_has_the_hosts_and_metrics_of_a_job() {
    let seen = |cpu: f64, metrics: &[(&str, u32, f64)]| JobReading {
        job: "7".to_owned(),
        host: HostUse { cpu: Some(cpu), ..HostUse::default() },
        metrics: metrics
            .iter()
            .map(|(name, rank, value)| ((*name).to_owned(), *rank, *value))
            .collect(),
    };
    let mut minutes = Minutes::default();
    let mut add = |minute: u32, seen: JobReading| {
        let look = UsageSnapshot { jobs: vec![seen], ..UsageSnapshot::default() };
        minutes.add(Minute::new(START + minute), 5000, &look)
    };
    add(0, seen(1.0, &[("loss", 0, 0.5), ("loss", 1, 9.0), ("speed", 1, 3.0)]));
    add(0, seen(3.0, &[("loss", 0, 0.25), ("loss", 1, 8.0)]));
    let over = add(1, seen(0.0, &[])).expect("it is over");
    over.with_batch(|batch| {
        let job = &batch.jobs[0];
        assert_eq!((job.job, job.values[JobSeries::Cpu as usize]), ("7", Some(2.0)));
        assert_eq!(job.values[JobSeries::HostMemory as usize], None);
        assert_eq!(job.metrics, [("loss", 0.25), ("speed", 3.0)], "last values, lowest ranks");
    });
}

#[test]
fn a_job_keeps_at_most_32_metrics_of_a_minute() {
    let metrics = (0..1000).map(|ix| (format!("n{ix}"), 0, 1.0)).collect();
    let seen = JobReading { job: "7".to_owned(), metrics, ..JobReading::default() };
    let look = UsageSnapshot { jobs: vec![seen], ..UsageSnapshot::default() };
    let mut minutes = Minutes::default();
    minutes.add(Minute::new(START), 5000, &look);
    let over =
        minutes.add(Minute::new(START + 1), 5000, &UsageSnapshot::default()).expect("it is over");
    over.with_batch(|batch| assert_eq!(batch.jobs[0].metrics.len(), 32));
}

fn running(number: u32, attempt: u32) -> Running {
    let (job, attempt) = (JobId::single(number.into()), Attempt(attempt));
    let task = TaskId { job, attempt, rank: 0 };
    Running { job, attempt, tasks: vec![(task, NodeName::new("lab1"))] }
}

#[test]
fn use_of_hosts_is_a_rate_between_two_readings() {
    let used = |cpu_s: f64, read: u64| LiveUsage {
        cpu_s: Some(cpu_s),
        memory: Some(5),
        read_bytes: Some(read),
        ..LiveUsage::default()
    };
    let mut readings = Readings::default();
    let job = running(1, 1);
    assert_eq!(readings.read(&job, 100.0, used(10.0, 1000)), None, "the first says nothing");
    let host = readings.read(&job, 110.0, used(25.0, 1000)).expect("a rate");
    let expected = HostUse { cpu: Some(1.5), memory: Some(5.0), read: Some(0.0), write: None };
    assert_eq!(host, expected);
    let less = readings.read(&job, 120.0, used(1.0, 2000)).expect("a rate");
    assert_eq!((less.cpu, less.read), (None, Some(100.0)), "a group that is gone is no rate");
    assert_eq!(readings.read(&running(1, 2), 130.0, used(90.0, 0)), None, "another attempt");
}

#[test]
fn many_jobs_are_read_in_turns() {
    let all: Vec<Running> = (1..=12_000).map(|number| running(number, 1)).collect();
    let mut readings = Readings::default();
    let mut read = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let turn = readings.turn(&all);
        assert_eq!(turn.len(), 1000);
        read.extend(turn.iter().map(|it| it.job));
    }
    assert_eq!(read.len(), all.len(), "each once in twelve looks");
    assert_eq!(readings.turn(&all)[0].job, JobId::single(1));
    assert_eq!(readings.turn(&all[..3]).len(), 3, "few are read each time");
    assert_eq!(readings.turn(&[]).len(), 0);
}

fn moment(second: u64) -> Timestamp {
    Timestamp::new(u64::from(START) * 60_000 + second * 1000)
}

fn points(values: &[f64]) -> Vec<Option<Point>> {
    values.iter().map(|mean| Some(Point { mean: *mean, max: *mean, n_minutes: 1 })).collect()
}

#[test]
fn points_closer_than_a_minute_are_samples_and_before_them_minutes() {
    let grid = Grid::fitting(moment(60), moment(180), 12, moment(180));
    assert_eq!((grid.start, grid.step_s, grid.n_points), (moment(60), 10, 12));
    let samples = [(moment(130), 9.0), (moment(140), 1.0), (moment(145), 3.0), (moment(160), 5.0)];
    let means = grid.means(&points(&[0.25, 0.75]), &samples);
    let (minute, first) = (Some(0.25), Some(9.0));
    let before = [minute, minute, minute, minute, minute, minute, None];
    let expected = [&before[..], &[first, Some(2.0), Some(3.0), Some(5.0), None]].concat();
    assert_eq!(means, expected, "a sample holds for ten seconds, and the minute of the first one");
    assert_eq!(grid.means(&points(&[0.25, 0.75]), &[])[11], Some(0.75));
}

#[test]
fn only_the_last_hour_has_points_closer_than_a_minute() {
    let fine = |from: u64, to: u64, n_points: usize| {
        Grid::fitting(moment(from), moment(to), n_points, moment(7200)).step_s
    };
    assert_eq!(fine(3600, 7200, 2000), 2);
    assert_eq!(fine(3600, 7200, 3600), 1);
    assert_eq!(fine(3600, 7200, 60), 60);
    assert_eq!(fine(3599, 7200, 2000), 60);
    assert_eq!(fine(0, 7200, 10), 900);
    // The future has no points.
    assert_eq!(Grid::fitting(moment(7190), moment(9000), 120, moment(7200)).n_points, 10);
}

#[test]
fn the_last_metrics_of_a_job_outlive_the_day() {
    let folder = tempfile::tempdir().expect("a folder");
    let usage = UsageHistory::new(folder.path());
    assert_eq!(usage.last_metrics("7").len(), 0);
    let path = folder.path().join("usage").join("history.db");
    let (mut history, _) = History::open(&path, Settings::default()).expect("a new file");
    let mut append = |minute: u32, metrics: &[(&str, f64)]| {
        let minute = Minute::new(START + minute);
        let job = JobSample { job: "7", values: [None; JobSeries::N], metrics };
        let batch = Batch { jobs: &[job], ..Batch::default() };
        history.append(minute, minute, &batch).expect("it is written");
        while history.maintain(minute).expect("it is sealed").n_sealed > 0 {}
    };
    append(0, &[("params", 7e9), ("loss", 2.0)]);
    append(3 * 24 * 60, &[("loss", 0.5)]);
    append(3 * 24 * 60 + 1, &[("loss", 0.31)]);
    let last = usage.last_metrics("7");
    let near = |name: &str, value: f64| (last[name].1 / value - 1.0).abs() < 1e-6;
    assert!(near("params", 7e9) && near("loss", 0.31), "{last:?}");
    assert_eq!(last["loss"].0, Minute::new(START + 3 * 24 * 60 + 1));
    // They are sealed a day later.
    append(4 * 24 * 60, &[("other", 1.0)]);
    assert_eq!(usage.last_metrics("7")["loss"], last["loss"]);
}
