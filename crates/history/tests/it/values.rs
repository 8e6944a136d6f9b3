//! Values of devices, jobs and metrics.

use gpool_history::{
    Batch, DeviceSeries, Error, JobSample, JobSeries, Sample, Settings, Span, Step,
};

use crate::support::{Place, append, append_all, means, minutes, sample, settle, span, start};

#[test]
fn an_absent_value_is_not_zero() {
    let place = Place::new();
    let mut history = place.open();
    append(&mut history, start(), "gpu0", 0.0);
    append_all(&mut history, start().after(1), &[sample("gpu0", None)]);
    append(&mut history, start().after(2), "gpu0", 0.5);
    append(&mut history, start().after(3), "gpu1", 0.25);
    let expected = [Some(0.0), None, Some(0.5), None];
    assert_eq!(minutes(&history, "gpu0", 4), expected);
    settle(&mut history, start().after(120));
    assert_eq!(minutes(&history, "gpu0", 4), expected);
    assert_eq!(minutes(&history, "no such device", 4), [None; 4]);

    // The mean of an hour is over its measured minutes.
    let chart = |step| {
        let series = [DeviceSeries::Utilization, DeviceSeries::SmActive];
        history.reader().devices(&["gpu0"], &series, span(start(), 120), step).unwrap()
    };
    let chart = chart(Step::HOUR);
    assert_eq!(means(&chart, 0), [Some(0.25), None]);
    assert_eq!(means(&chart, 1), [None, None]);
    let point = chart.lines[0].points[0].unwrap();
    assert_eq!((point.n_minutes, point.max), (2, 0.5));
}

#[test]
fn each_series_returns_with_its_resolution() {
    let place = Place::new();
    let mut history = place.open();
    let written = [
        (0.733, 0.0026),
        (0.1, 0.0026),
        (0.0049, 0.0026),
        (1.0, 0.0026),
        (80e9, 524_289.0),
        (699.3, 1.01),
        (83.4, 0.51),
        (95.0, 0.51),
        (1.98e9, 2.51e6),
        (55.5e9, 55.5e9 * 0.008),
        (17.0, 17.0 * 0.008),
        (9e11, 9e11 * 0.008),
        (0.25, 0.0026),
    ];
    let values = written.map(|(value, _)| Some(value));
    append_all(&mut history, start(), &[Sample { device: "gpu0", values }]);
    for now in [0, 120] {
        settle(&mut history, start().after(now));
        let chart = history
            .reader()
            .devices(&["gpu0"], &DeviceSeries::ALL, span(start(), 1), Step::MINUTE)
            .unwrap();
        for (line, (value, error)) in chart.lines.iter().zip(written) {
            let found = line.points[0].unwrap().mean;
            let series = DeviceSeries::ALL[line.series_ix];
            assert!((found - value).abs() <= error, "{series:?}: {found} is not {value}");
        }
    }
}

#[test]
fn values_that_are_no_numbers_are_absent() {
    let place = Place::new();
    let mut history = place.open();
    for (n, value) in (0..).zip([f64::NAN, f64::INFINITY, -0.5, 0.5]) {
        append(&mut history, start().after(n), "gpu0", value);
    }
    assert_eq!(minutes(&history, "gpu0", 4), [None, None, None, Some(0.5)]);
}

#[test]
fn jobs_have_series_and_their_users_metrics() {
    let place = Place::new();
    let mut history = place.open_with(Settings { metrics_of_job: 2, ..Settings::default() });
    let mut values = [None; JobSeries::N];
    values[JobSeries::Cpu as usize] = Some(7.25);
    let metrics = [("loss", -0.012_345), ("tokens_per_s", 1.234_56e6), ("third", 1.0)];
    let jobs = [
        JobSample { job: "1842.3", values, metrics: &metrics },
        JobSample { job: "1842", values, metrics: &[("loss", 1.0), ("a\u{1f}b", 2.0)] },
    ];
    let batch = Batch { jobs: &jobs, ..Batch::default() };
    let appended = history.append(start(), start(), &batch).unwrap();
    assert_eq!(appended.n_refused, 2, "the third metric of a job, and a bad name");
    for now in [0, 120] {
        settle(&mut history, start().after(now));
        let reader = history.reader();
        let range = span(start(), 2);
        let chart = reader.jobs(&["1842.3"], &[JobSeries::Cpu], range, Step::MINUTE).unwrap();
        assert_eq!(means(&chart, 0), [Some(7.25), None]);
        let chart = reader.metrics("1842.3", range, Step::MINUTE).unwrap();
        let names: Vec<_> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["loss", "tokens_per_s"]);
        for (line, (_, value)) in chart.lines.iter().zip(metrics) {
            let found = line.points[0].unwrap().mean;
            assert!((found / value - 1.0).abs() < 1e-5, "{found} is not {value}");
        }
        assert_eq!(reader.metrics("1842", range, Step::MINUTE).unwrap().lines.len(), 1);
        assert_eq!(reader.metrics("184", range, Step::MINUTE).unwrap().lines.len(), 0);
    }
}

#[test]
fn a_chart_has_the_points_that_were_asked_for() {
    let place = Place::new();
    let mut history = place.open();
    for n in 0..180 {
        append(&mut history, start().after(n), "gpu0", f64::from(n / 60) * 0.1);
    }
    settle(&mut history, start().after(130));
    let range = Span { from: start().after(30), to: start().after(150) };
    assert_eq!(Step::fitting(range, 1000), Step::MINUTE);
    let step = Step::fitting(range, 4);
    assert_eq!(step.minutes(), 30);
    let chart =
        history.reader().devices(&["gpu0"], &[DeviceSeries::Utilization], range, step).unwrap();
    assert_eq!(chart.start, start().after(30));
    assert_eq!(means(&chart, 0), [Some(0.0), Some(0.1), Some(0.1), Some(0.2)]);
    let month = span(start(), 30 * 24 * 60);
    assert_eq!(Step::fitting(month, 1000), Step::HOUR);
    let years = span(start(), 730 * 24 * 60);
    assert!(Step::fitting(years, 1000).n_points(years) <= 1000);

    let devices = vec!["gpu0"; 1000];
    let wide = history.reader().devices(&devices, &DeviceSeries::ALL, month, Step::MINUTE);
    assert!(matches!(wide, Err(Error::TooWide { .. })));
    let empty = Span { from: start(), to: start() };
    let chart =
        history.reader().devices(&["gpu0"], &[DeviceSeries::Power], empty, Step::MINUTE).unwrap();
    assert!(chart.lines[0].points.is_empty());
}

#[test]
fn bad_names_are_refused_alone() {
    let place = Place::new();
    let mut history = place.open();
    let long = "x".repeat(257);
    let samples = [sample(&long, Some(0.5)), sample("a\nb", Some(0.5)), sample("gpu0", Some(0.5))];
    assert_eq!(append_all(&mut history, start(), &samples).n_refused, 2);
    assert_eq!(minutes(&history, "gpu0", 1), [Some(0.5)]);
}
