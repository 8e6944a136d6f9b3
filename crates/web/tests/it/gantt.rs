//! The chart of the plan.

use gpool_model::job::JobState;
use gpool_web::{Filters, Frame, Queue};
use gpool_wire::{Eta, Job};

use crate::minute;

fn job(id: &str, limit_min: f64, expected_min: Option<f64>) -> Job {
    Job {
        id: id.to_owned(),
        gpus: "1".to_owned(),
        time_limit: Some(limit_min * 60.0),
        expected_run_s: expected_min.map(|it| it * 60.0),
        ..Job::default()
    }
}

fn plan(running: &[Job], waiting: &[Job]) -> String {
    let queue = Queue {
        frame: Frame::default(),
        filters: &Filters::default(),
        jobs: &[],
        n_jobs: None,
        next: None,
        plan: Some((running, waiting)),
        now: minute(60),
    };
    queue.page()
}

fn running(id: &str, limit_min: f64, expected_min: Option<f64>) -> Job {
    let state = JobState::Running;
    Job { state, started_at: Some(minute(0)), ..job(id, limit_min, expected_min) }
}

#[test]
fn a_running_job_ends_as_expected_with_its_limit_as_a_line() {
    // The chart ends at the last expected end, 100 minutes from now.
    let page = plan(&[running("1", 110.0, Some(25.0)), running("2", 160.0, None)], &[]);
    let bar = "<rect class=\"run\" x=\"0\" y=\"28\" width=\"250\"";
    assert!(page.contains(bar), "{page}");
    assert!(page.contains("<rect class=\"limit\" x=\"250\" y=\"36\" width=\"250\""), "{page}");
    assert!(page.contains("running, ends in about 25 min, at most 50 min more"), "{page}");
    // Without jobs like it, the limit is the only end.
    assert!(page.contains("<rect class=\"run\" x=\"0\" y=\"54\" width=\"1000\""), "{page}");
    assert_eq!(page.matches("<rect class=\"limit\"").count(), 1, "{page}");
}

#[test]
fn a_waiting_job_runs_as_expected_from_its_start() {
    let eta = Eta {
        p10: Some(minute(70)),
        p50: Some(minute(80)),
        p90: Some(minute(100)),
        basis: "predicted".to_owned(),
        as_of: minute(60),
        later_than: None,
        planned_at: None,
    };
    let waits = Job { eta: Some(eta), ..job("3", 60.0, Some(10.0)) };
    // The chart ends a quarter after the late start, 50 minutes from now.
    let page = plan(&[], &[waits]);
    assert!(page.contains("<rect class=\"plan\" x=\"400\" y=\"28\" width=\"200\""), "{page}");
    assert!(page.contains("<rect class=\"limit\" x=\"600\" y=\"36\" width=\"400\""), "{page}");
    assert!(page.contains("<rect class=\"likely\" x=\"200\" y=\"35\" width=\"600\""), "{page}");
}
