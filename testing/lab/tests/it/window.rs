//! The time range of the figures, and its intervals.

use gpool_lab::simulate::figures::window::{DAY, HOUR, Window, spread};
use gpool_model::Timestamp;

#[test]
fn time_is_divided_as_people_do_and_nothing_of_it_is_lost() {
    let month = Window { origin: Timestamp::ZERO, span: 31.0 * DAY - 5.0 };
    let parts = month.parts(180.0);
    assert_eq!(parts[0], (0.0, 6.0 * HOUR));
    assert_eq!(parts.last().map(|(_, to)| *to), Some(month.span));
    let mut all = 0.0;
    spread(&parts, (3.0 * HOUR, 40.0 * DAY), |_, span| all += span);
    assert_eq!(all, month.span - 3.0 * HOUR);
    let moment = Window { origin: Timestamp::ZERO, span: 1.0 };
    assert_eq!(moment.parts(180.0), [(0.0, 1.0)]);
}
