//! Sealing changes no answer.

use gpool_history::{Chart, DeviceSeries, History, Step};

use crate::support::{Place, append, append_all, minutes, sample, settle, span, start, wave};

const DEVICES: u32 = 2100;

fn names() -> Vec<String> {
    (0..DEVICES).map(|n| format!("GPU-{n:05}")).collect()
}

fn charts(history: &History) -> Vec<Chart> {
    let names = names();
    let some: Vec<&str> = names.iter().step_by(97).map(String::as_str).collect();
    let series = [DeviceSeries::Power, DeviceSeries::Utilization];
    let chart = |from, minutes, step| {
        let range = span(start().after(from), minutes);
        history.reader().devices(&some, &series, range, step).unwrap()
    };
    let short = Step::fitting(span(start(), 150), 20);
    // From an hour on, whole hours count.
    vec![chart(7, 150, Step::MINUTE), chart(7, 150, short), chart(0, 180, Step::DAY)]
}

#[test]
fn charts_are_the_same_before_and_after_sealing() {
    let place = Place::new();
    let mut history = place.open();
    let names = names();
    for minute in 0..130 {
        let value = |n: u32| (n % 5 != minute % 7).then(|| wave(n + minute));
        let samples: Vec<_> =
            names.iter().zip(0..).map(|(name, n)| sample(name, value(n))).collect();
        append_all(&mut history, start().after(minute), &samples);
    }
    let before = charts(&history);
    assert!(history.maintain(start().after(69)).unwrap().n_sealed == 0, "too early");
    let mut calls = 0;
    while history.maintain(start().after(200)).unwrap().more {
        calls += 1;
        assert_eq!(charts(&history)[..2], before[..2], "after {calls} calls");
    }
    assert!(calls > 0, "a call seals few parts");
    let after = charts(&history);
    assert_eq!(after[..2], before[..2]);
    // Means of hours are rounded to the resolution of the series.
    for (line, expected) in after[2].lines.iter().zip(&before[2].lines) {
        let (found, expected) = (line.points[0].unwrap(), expected.points[0].unwrap());
        assert!((found.mean - expected.mean).abs() < 2.0);
    }
    drop(history);
    assert_eq!(charts(&place.open()), after);
}

#[test]
fn late_minutes_are_added_to_sealed_hours() {
    let place = Place::new();
    let mut history = place.open();
    append(&mut history, start(), "gpu0", 0.2);
    let now = start().after(90);
    settle(&mut history, now);
    for (minute, value) in [(0, 0.9), (1, 0.4)] {
        let samples = [sample("gpu0", Some(value)), sample("gpu1", Some(value))];
        let batch = gpool_history::Batch { devices: &samples, ..Default::default() };
        history.append(now, start().after(minute), &batch).unwrap();
    }
    let expected = [Some(0.2), Some(0.4)];
    assert_eq!(minutes(&history, "gpu0", 2), expected);
    settle(&mut history, now);
    assert_eq!(minutes(&history, "gpu0", 2), expected);
    assert_eq!(minutes(&history, "gpu1", 2), [Some(0.9), Some(0.4)]);
    let chart = history
        .reader()
        .devices(&["gpu0"], &[DeviceSeries::Utilization], span(start(), 60), Step::HOUR)
        .unwrap();
    let point = chart.lines[0].points[0].unwrap();
    assert_eq!(point.n_minutes, 2);
    assert!((point.mean - 0.3).abs() < 1e-9);
}
