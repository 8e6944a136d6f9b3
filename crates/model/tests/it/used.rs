//! Tests of `used`.

use gpool_model::unit::{GpuTime, MilliGpu, Millis};
use gpool_model::used::{always, decayed};

const DAY: Millis = Millis::from_hours(24);
const TWO: MilliGpu = MilliGpu::from_devices(2);

fn near(one: GpuTime, other: GpuTime, per_million: u64) -> bool {
    one.get().abs_diff(other.get()) <= other.get() / 1_000_000 * per_million + 1000
}

#[test]
fn usage_halves_after_a_half_life() {
    let used = GpuTime::new(8 * GpuTime::HOUR.get());
    for (days, parts) in [(1, 2), (2, 4), (3, 8)] {
        let span = Millis::from_hours(24 * days);
        let left = decayed(used, MilliGpu::ZERO, span, DAY);
        assert_eq!(left, used.div_floor(parts));
    }
    assert_eq!(decayed(used, MilliGpu::ZERO, Millis::from_hours(24 * 99), DAY), GpuTime::ZERO);
    assert_eq!(decayed(used, TWO, Millis::ZERO, DAY), used);
}

#[test]
fn usage_of_constant_use_converges() {
    let long = decayed(GpuTime::ZERO, TWO, Millis::from_hours(24 * 90), DAY);
    assert!(near(long, always(TWO, DAY), 1), "{long} {}", always(TWO, DAY));
    let day = decayed(GpuTime::ZERO, TWO, DAY, DAY);
    assert!(near(day, always(TWO, DAY).div_floor(2), 1), "{day}");
    // Two GPUs use 48 hours in a day, without decay.
    assert_eq!(day.to_string(), "34");
}

#[test]
fn the_number_of_steps_hardly_matters() {
    let at_once = decayed(GpuTime::ZERO, TWO, Millis::from_hours(10), DAY);
    for step in [Millis::new(250), Millis::from_secs(7), Millis::from_mins(3)] {
        let n_steps = Millis::from_hours(10).get() / step.get();
        let all = (0..n_steps).fold(GpuTime::ZERO, |sum, _| decayed(sum, TWO, step, DAY));
        let rest = Millis::from_hours(10).get() % step.get();
        let all = decayed(all, TWO, Millis::new(rest), DAY);
        assert!(near(all, at_once, 5), "{step}: {} {}", all.get(), at_once.get());
    }
}

#[test]
fn no_amount_overflows() {
    let most = decayed(GpuTime::MAX, MilliGpu::MAX, Millis::MAX, Millis::from_hours(9999));
    assert!(most > GpuTime::ZERO);
    let short = decayed(GpuTime::MAX, MilliGpu::MAX, Millis::new(1), Millis::from_hours(9999));
    assert_eq!(short, GpuTime::MAX);
}
