//! Tests of `job::course`.

use gpool_model::id::Attempt;
use gpool_model::job::course::{Again, Course, PastAttempt};
use gpool_model::job::end::Outcome;
use gpool_model::rare::Usual as _;
use gpool_model::unit::Timestamp;

#[test]
fn usual_is_the_default() {
    assert_eq!(*Course::USUAL, Course::default());
}

#[test]
fn the_oldest_attempts_are_dropped_first() {
    let mut course = Course::default();
    for attempt in 1..=40 {
        course.remember(PastAttempt {
            attempt: Attempt(attempt),
            outcome: Outcome::Failed,
            cause: None,
            exit: None,
            started_at: None,
            ended_at: Timestamp::ZERO,
            again: Again::Retry,
        });
    }
    assert_eq!(course.past.len(), Course::PAST_MOST);
    assert_eq!(course.past[0].attempt, Attempt(9));
}
