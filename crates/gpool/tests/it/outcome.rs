//! The exit code of `run` and `wait` for a job that has ended.

use gpool_model::job::JobState;
use gpool_verbs::outcome::exit_of;

#[test]
fn ends_of_jobs_are_told_apart_by_exit_code() {
    for (state, code, exit) in [
        (JobState::Succeeded, Some(0), Some(0)),
        (JobState::Failed, Some(7), Some(7)),
        (JobState::Failed, Some(128 + 11), Some(139)),
        (JobState::Failed, Some(256 + 3), Some(3)),
        (JobState::Failed, None, Some(125)),
        (JobState::TimedOut, Some(143), Some(124)),
        (JobState::Cancelled, Some(143), Some(143)),
        (JobState::Cancelled, None, Some(143)),
        (JobState::Lost, None, Some(1)),
        (JobState::Running, None, None),
    ] {
        assert_eq!(exit_of(state, code).map(|exit| exit.0), exit, "{state} {code:?}");
    }
}
