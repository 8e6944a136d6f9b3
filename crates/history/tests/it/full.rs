//! The limit of bytes: the oldest data makes space, and a full file refuses only new minutes.

use gpool_history::{Batch, Error, Settings};

use crate::support::{Place, minutes, sample, start};

const LIMIT: u64 = 1 << 19;

#[test]
fn the_file_stays_within_its_limit() {
    let place = Place::new();
    let mut history = place.open_with(Settings { bytes_max: LIMIT, ..Settings::default() });
    let names: Vec<String> = (0..100).map(|n| format!("GPU-{n}")).collect();
    let mut n_dropped = 0;
    let hours = 60;
    for n in 0..hours * 60 {
        let now = start().after(n);
        // Values without a pattern need space.
        let value = |device: u32| {
            let mixed = (device * 5000 + n).wrapping_mul(2_654_435_761) >> 16;
            Some(f64::from(mixed % 200) / 200.0)
        };
        let samples: Vec<_> =
            names.iter().zip(0..).map(|(name, ix)| sample(name, value(ix))).collect();
        let batch = Batch { devices: &samples, ..Batch::default() };
        history.append(now, now, &batch).unwrap();
        n_dropped += history.maintain(now).unwrap().n_dropped;
    }
    assert!(n_dropped > 0, "{} bytes are no test", history.bytes().unwrap());
    assert!(std::fs::metadata(place.path()).unwrap().len() <= LIMIT);
    let found = minutes(&history, "GPU-7", hours * 60);
    assert!(found[(hours as usize - 2) * 60..].iter().all(Option::is_some));
}

#[test]
fn a_full_file_keeps_its_minutes() {
    let place = Place::new();
    let mut history = place.open_with(Settings { bytes_max: 1, ..Settings::default() });
    let names: Vec<String> = (0..1000).map(|n| format!("GPU-{n}")).collect();
    let samples: Vec<_> = names.iter().map(|name| sample(name, Some(0.5))).collect();
    let batch = Batch { devices: &samples, ..Batch::default() };
    let mut n_written = 0;
    let error = loop {
        let now = start().after(n_written);
        match history.append(now, now, &batch) {
            Ok(_) => n_written += 1,
            Err(error) => break error,
        }
        assert!(n_written < 1000, "there is no limit");
    };
    assert!(matches!(error, Error::Full), "{error}");
    assert!(n_written > 0);
    let whole = |n| vec![Some(0.5); n as usize];
    assert_eq!(minutes(&history, "GPU-999", n_written), whole(n_written));
    drop(history);
    // With a higher limit, it goes on.
    let mut history = place.open();
    let now = start().after(n_written);
    history.append(now, now, &batch).unwrap();
    assert_eq!(minutes(&history, "GPU-999", n_written + 1), whole(n_written + 1));
}
