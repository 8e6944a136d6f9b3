//! Clocks that jump.

use gpool_history::{Batch, Refusal, Settings};

use crate::support::{Place, append, minutes, sample, settle, start};

const DAY: u32 = 24 * 60;

#[test]
fn a_clock_that_moves_back_changes_no_written_minute() {
    let place = Place::new();
    let mut history = place.open();
    for n in 0..5 {
        append(&mut history, start().after(n), "gpu0", 0.1);
    }
    // Back by three minutes: the other device is new in them, and gets its values.
    for n in 2..7 {
        let batch = [sample("gpu0", Some(0.8)), sample("gpu1", Some(0.3))];
        let batch = Batch { devices: &batch, ..Batch::default() };
        history.append(start().after(n), start().after(n), &batch).unwrap();
    }
    for now in [7, 120] {
        settle(&mut history, start().after(now));
        let old = [Some(0.1); 5].into_iter();
        let expected: Vec<_> = old.chain([Some(0.8); 2]).collect();
        assert_eq!(minutes(&history, "gpu0", 7), expected);
        assert_eq!(minutes(&history, "gpu1", 3), [None, None, Some(0.3)]);
    }
}

#[test]
fn minutes_far_ahead_or_too_old_are_refused() {
    let place = Place::new();
    let mut history = place.open();
    let now = start().after(40 * DAY);
    let samples = [sample("gpu0", Some(0.5))];
    let batch = Batch { devices: &samples, ..Batch::default() };
    let mut refused =
        |minute| history.append(now, minute, &batch).map(|appended| appended.refused).unwrap();
    assert_eq!(refused(now.after(2)), None);
    assert_eq!(refused(now.after(3)), Some(Refusal::Future));
    assert_eq!(refused(now.before(30 * DAY)), None);
    assert_eq!(refused(now.before(30 * DAY + 1)), Some(Refusal::Old));
    assert_eq!(minutes(&history, "gpu0", 1), [None]);
}

#[test]
fn a_clock_that_is_years_ahead_for_a_minute_costs_little() {
    let place = Place::new();
    let mut history = place.open();
    for n in 0..(6 * 60) {
        append(&mut history, start().after(n), "gpu0", 0.1);
    }
    settle(&mut history, start().after(6 * 60 + 10));
    let wrong = start().after(2000 * DAY);
    append(&mut history, wrong, "gpu0", 0.9);
    history.maintain(wrong).unwrap();
    // The clock is right again.
    let now = start().after(6 * 60 + 11);
    append(&mut history, now, "gpu0", 0.2);
    history.maintain(now).unwrap();
    // The oldest hour is gone, the others and the new minute are there.
    let found = minutes(&history, "gpu0", 6 * 60 + 12);
    assert_eq!(found[..60], [None; 60]);
    assert_eq!(found[60..360], [Some(0.1); 300]);
    assert_eq!(found[371], Some(0.2));
}

#[test]
fn the_last_minute_of_the_format_is_no_special_case() {
    let place = Place::new();
    let mut history = place.open_with(Settings::default());
    let end = gpool_history::Minute::MAX;
    append(&mut history, end, "gpu0", 0.9);
    settle(&mut history, end);
    append(&mut history, gpool_history::Minute::new(0), "gpu0", 0.9);
    settle(&mut history, gpool_history::Minute::new(0));
    assert_eq!(minutes(&history, "gpu0", 1), [None]);
}
