//! Tests of `life`.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::exit::Exit;
use gpool_model::job::end::{EndCause, ExitStatus, Outcome};
use gpool_model::life::{Life, Retry, RetryOn};
use gpool_model::unit::Millis;

fn retry(on: &[RetryOn], exits: &[i32]) -> Retry {
    Retry {
        most: 3,
        on: on.iter().copied().collect(),
        exits: exits.iter().copied().collect(),
        backoff: Millis::from_secs(30),
    }
}

#[test]
fn a_retry_covers_the_named_ends() {
    let exit = |code| Some(ExitStatus::Code(code));
    let (oom, limit) = (EndCause::Oom, EndCause::TimeLimit);
    let plain = retry(&[], &[]);
    assert!(plain.covers(Outcome::Failed, None, exit(1)));
    assert!(plain.covers(Outcome::TimedOut, Some(&limit), exit(143)));
    assert!(!plain.covers(Outcome::Failed, Some(&oom), exit(137)));
    assert!(!plain.covers(Outcome::TimedOut, Some(&EndCause::Deadline), None));
    let by_exit = retry(&[], &[33]);
    assert!(by_exit.covers(Outcome::Failed, None, exit(33)));
    assert!(!by_exit.covers(Outcome::Failed, None, exit(1)));
    assert!(!by_exit.covers(Outcome::TimedOut, Some(&limit), None));
    let named = retry(&[RetryOn::Oom, RetryOn::Timeout], &[]);
    assert!(named.covers(Outcome::Failed, Some(&oom), exit(137)));
    assert!(named.covers(Outcome::TimedOut, Some(&limit), None));
    assert!(!named.covers(Outcome::Failed, None, exit(1)));
    let cancelled = EndCause::Cancelled { by: Arc::from("ana") };
    assert!(!plain.covers(Outcome::Cancelled, Some(&cancelled), exit(1)));
}

#[test]
fn backoff_doubles_up_to_an_hour() {
    let retry = retry(&[], &[]);
    let pauses: Vec<u64> = [0, 1, 2, 6, 7, 200].map(|n| retry.pause(n).get() / 1000).to_vec();
    assert_eq!(pauses, [30, 60, 120, 1920, 3600, 3600]);
    let long = Retry { backoff: Millis::from_hours(5), ..retry };
    assert_eq!(long.pause(3), Millis::from_hours(5));
}

#[test]
fn the_default_exit_is_requeue_and_only_of_preemptible_jobs() {
    let life = |preemptible, exits: &[Exit]| Life {
        preemptible,
        exits: exits.iter().copied().collect(),
        ..Life::default()
    };
    assert!(life(None, &[]).allowed_exits().is_empty());
    assert!(!life(Some(false), &[Exit::Kill]).allows(Exit::Kill));
    assert_eq!(life(Some(true), &[]).allowed_exits(), BTreeSet::from([Exit::Requeue]));
    let both = life(Some(true), &[Exit::Kill, Exit::Pause]);
    let best: Vec<Exit> = both.allowed_exits().into_iter().collect();
    assert_eq!(best, [Exit::Pause, Exit::Kill]);
    assert!(!both.allows(Exit::Requeue));
}

#[test]
fn impossible_exits_are_reported() {
    let life = |preemptible, requeue, exits: &[Exit]| Life {
        preemptible,
        requeue,
        exits: exits.iter().copied().collect(),
        ..Life::default()
    };
    let is_wrong = |life: Life| life.wrong_exits().is_some();
    assert!(is_wrong(life(Some(true), None, &[Exit::Pause])));
    assert!(is_wrong(life(Some(true), Some(false), &[])));
    assert!(is_wrong(life(Some(true), Some(false), &[Exit::Pause, Exit::Checkpoint])));
    assert!(is_wrong(life(Some(false), None, &[Exit::Kill])));
    assert!(!is_wrong(life(Some(true), Some(false), &[Exit::Pause, Exit::Kill])));
    assert!(!is_wrong(life(None, Some(false), &[])));
    assert!(!is_wrong(life(Some(true), None, &[])));
}
