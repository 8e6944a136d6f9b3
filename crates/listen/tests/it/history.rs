//! The history of a cluster from its store, for simulations with changes. Reads a store that a
//! server may have open, and changes nothing.

use gpool_model::TakenBack;
use gpool_model::job::PastAttempt;
use gpool_model::job::Usage;
use gpool_model::{Attempt, JobEnd, Outcome};

use gpool_listen::testing::ran;
use gpool_model::job::Again;
use gpool_model::{Exit, Job, JobId, Millis, Phase, Timestamp};

fn at(seconds: u64) -> Timestamp {
    Timestamp::new(seconds * 1000)
}

fn ended(started_at: Option<u64>, ended_at: u64) -> Job {
    let end = JobEnd {
        outcome: Outcome::Succeeded,
        cause: None,
        exit: None,
        started_at: started_at.map(at),
        ended_at: at(ended_at),
        usage: Usage::default(),
        allocations: Vec::new(),
        resized: 0,
        steps: gpool_model::Rare::default(),
    };
    Job::new(JobId::single(7), 0, Phase::Ended(Box::new(end)))
}

fn past(started_at: u64, ended_at: u64, exit: Option<Exit>) -> PastAttempt {
    let beneficiary = JobId::single(8);
    PastAttempt {
        attempt: Attempt::FIRST,
        outcome: Outcome::Failed,
        cause: None,
        exit: None,
        started_at: Some(at(started_at)),
        ended_at: at(ended_at),
        again: match exit {
            None => Again::Retry,
            Some(exit) => Again::TakenBack { why: TakenBack::Preempt, beneficiary, exit },
        },
    }
}

/// Returns the seconds that a job ran after these attempts, and the start of the first one that
/// counts.
fn ran_after(past: Vec<PastAttempt>, last: Option<u64>, limit: Option<u32>) -> Option<[u64; 2]> {
    let mut job = ended(last, 100);
    job.course.past = past;
    let ran = ran(&job, limit.map(Millis::from_secs));
    ran.map(|(span, first)| [span.get() / 1000, first.get() / 1000])
}

#[test]
fn the_last_run_counts_with_those_that_it_went_on_from() {
    let saved = || past(20, 30, Some(Exit::Checkpoint));
    let failed = || past(1, 9, None);
    assert_eq!(ran_after(vec![], Some(90), None), Some([10, 90]));
    assert_eq!(ran_after(vec![], None, None), None);
    assert_eq!(ran_after(vec![failed()], Some(90), None), Some([10, 90]));
    assert_eq!(ran_after(vec![failed(), saved()], Some(90), None), Some([20, 20]));
    assert_eq!(ran_after(vec![saved(), failed()], Some(90), None), Some([10, 90]));
    let lost = past(40, 60, Some(Exit::Requeue));
    assert_eq!(ran_after(vec![saved(), lost], Some(90), None), Some([10, 90]));
    // The job ended while it waited to run again.
    assert_eq!(ran_after(vec![saved(), saved()], None, None), Some([20, 20]));
    assert_eq!(ran_after(vec![saved(), failed()], None, None), Some([8, 1]));
    // The time after the limit does not count.
    assert_eq!(ran_after(vec![], Some(90), Some(7)), Some([7, 90]));
    let mut paused = ended(Some(90), 100);
    paused.course.paused = Millis::from_secs(4);
    assert_eq!(ran(&paused, None), Some((Millis::from_secs(6), at(90))));
}
