//! `sprio`: the sort keys of pending jobs.

use gpool_compat::testing::{Scale, factor};
use gpool_wire::Job;

#[test]
fn factors_are_parts_of_all() {
    let shares = [("nlp".to_owned(), 2.0)].into_iter().collect();
    let scale = Scale { escalate_after_s: 3600, gpus: 8.0, shares };
    let mut job = Job { project: "nlp".to_owned(), ..Job::default() };
    (job.request.gpus, job.wait.waited_s) = (Some("h100:4".to_owned()), 900.0);
    let of = |job: &Job| ['A', 'F', 'J', 'Q'].map(|letter| factor(letter, job, &scale));
    assert_eq!(of(&job), [Some(0.25), Some(0.25), Some(0.5), None]);
    assert_eq!(factor('a', &job, &scale), Some(0.25));
    job.wait.waited_s = 9000.0;
    job.project = "other".to_owned();
    job.request.gpus = Some("0.5".to_owned());
    assert_eq!(of(&job), [Some(1.0), None, Some(0.0625), None]);
}
