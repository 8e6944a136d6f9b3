//! Retention.

use gpool_history::{DeviceSeries, Settings, Step};

use crate::support::{Place, append, means, minutes, settle, span, start};

const DAY: u32 = 24 * 60;

#[test]
fn minutes_become_hours_and_hours_end() {
    let place = Place::new();
    let settings = Settings { minute_days: 2, hour_days: 5, ..Settings::default() };
    let mut history = place.open_with(settings);
    let value = |n: u32| f64::from(n / 60 % 2) * 0.5;
    for n in 0..4 * 60 {
        append(&mut history, start().after(n), "gpu0", value(n));
    }
    let hours = |history: &gpool_history::History| {
        let range = span(start(), 240);
        let series = [DeviceSeries::Utilization];
        means(&history.reader().devices(&["gpu0"], &series, range, Step::HOUR).unwrap(), 0)
    };
    settle(&mut history, start().after(2 * DAY));
    assert_eq!(minutes(&history, "gpu0", 240).iter().flatten().count(), 240);

    // The first two hours are too old: the chart of minutes shows their means.
    settle(&mut history, start().after(2 * DAY + 120));
    let found = minutes(&history, "gpu0", 240);
    assert_eq!(found[..60], [Some(0.0); 60]);
    assert_eq!(found[60..120], [Some(0.5); 60]);
    assert_eq!(found[120..180], [Some(0.0); 60]);
    assert_eq!(hours(&history), [Some(0.0), Some(0.5), Some(0.0), Some(0.5)]);

    settle(&mut history, start().after(6 * DAY - 60));
    assert_eq!(hours(&history), [Some(0.0), Some(0.5), Some(0.0), Some(0.5)]);
    settle(&mut history, start().after(6 * DAY));
    assert_eq!(hours(&history), [None; 4]);
    assert_eq!(minutes(&history, "gpu0", 240), [None; 240]);

    // Its name goes too, and may come back.
    settle(&mut history, start().after(8 * DAY));
    append(&mut history, start().after(9 * DAY), "gpu1", 0.5);
    append(&mut history, start().after(9 * DAY), "gpu0", 0.25);
    let range = span(start().after(9 * DAY), 1);
    let series = [DeviceSeries::Utilization];
    let chart = history.reader().devices(&["gpu0", "gpu1"], &series, range, Step::MINUTE).unwrap();
    assert_eq!((means(&chart, 0), means(&chart, 1)), (vec![Some(0.25)], vec![Some(0.5)]));
}

#[test]
fn a_call_drops_one_hour() {
    let place = Place::new();
    let mut history = place.open();
    for n in 0..4 {
        append(&mut history, start().after(n * 60), "gpu0", 0.5);
    }
    settle(&mut history, start().after(300));
    let late = start().after(40 * DAY);
    let done = history.maintain(late).unwrap();
    assert_eq!((done.n_dropped, done.more), (1, true));
    settle(&mut history, late);
    assert!(!history.maintain(late).unwrap().more);
}
