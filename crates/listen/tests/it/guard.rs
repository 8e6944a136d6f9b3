//! Checks of every request before its handler runs: the user's request rate, the headers, and the
//! user's role for the route. A route that is not in the table of routes is not served.

use std::time::{Duration, Instant};

use gpool_listen::testing::Rates;

#[test]
fn requests_are_counted_for_each_user_and_forgotten_with_time() {
    let rates = Rates::new(10);
    let start = Instant::now();
    let n_taken = |uid, at| (0..100).filter(|_| rates.take(uid, at)).count();
    assert_eq!(n_taken(1, start), 20, "two seconds' worth at once");
    assert_eq!(n_taken(2, start), 20, "another user has as many");
    assert_eq!(n_taken(1, start + Duration::from_millis(500)), 5);
    assert_eq!(n_taken(1, start + Duration::from_secs(60)), 20, "and no more for waiting");
}
