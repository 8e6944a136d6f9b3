//! The chart of the plan.

use gpool_model::job::JobState;
use gpool_web::{Filters, Frame, Queue};
use gpool_wire::{Eta, Job, JobCreate, JobForecast, JobRun, Quantity};

use crate::minute;

fn job(id: &str, limit_min: f64, expected_min: Option<f64>) -> Job {
    Job {
        id: id.to_owned(),
        request: JobCreate {
            gpus: Some("1".to_owned()),
            time: Some(Quantity::Decimal(limit_min * 60.0)),
            ..JobCreate::default()
        },
        forecast: JobForecast { eta: None, expected_run_s: expected_min.map(|it| it * 60.0) },
        ..Job::default()
    }
}

fn plan(running: &[Job], waiting: &[Job]) -> String {
    let queue = Queue {
        frame: Frame::default(),
        filters: &Filters::default(),
        jobs: &[],
        n_rows: None,
        next: None,
        address: "/queue",
        plan: Some((running, waiting)),
        now: minute(60),
    };
    queue.page()
}

fn running(id: &str, limit_min: f64, expected_min: Option<f64>) -> Job {
    let state = JobState::Running;
    let run = JobRun { started_at: Some(minute(0)), ..JobRun::default() };
    Job { state, run, ..job(id, limit_min, expected_min) }
}

#[test]
fn a_running_job_ends_as_expected_with_its_limit_as_a_line() {
    // The chart ends at the last expected end, 100 minutes from now.
    let page = plan(&[running("1", 110.0, Some(25.0)), running("2", 160.0, None)], &[]);
    let bar = "<rect class=\"busy\" x=\"0\" width=\"250\"";
    assert!(page.contains(bar), "{page}");
    assert!(page.contains("<rect class=\"limit\" x=\"250\" y=\"8\" width=\"250\""), "{page}");
    assert!(page.contains("running, ends in about 25 min, at most 50 min more"), "{page}");
    // Without jobs like it, the limit is the only end.
    assert!(page.contains("<rect class=\"busy\" x=\"0\" width=\"1000\""), "{page}");
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
    let mut waits = job("3", 60.0, Some(10.0));
    waits.forecast.eta = Some(eta);
    // The chart ends a quarter after the late start, 50 minutes from now.
    let page = plan(&[], &[waits]);
    assert!(page.contains("<rect class=\"wait\" x=\"400\" width=\"200\""), "{page}");
    assert!(page.contains("<rect class=\"limit\" x=\"600\" y=\"8\" width=\"400\""), "{page}");
    assert!(page.contains("<rect class=\"likely\" x=\"200\" y=\"7\" width=\"600\""), "{page}");
}

fn queue(jobs: &[Job], sort: &str) -> String {
    let filters = Filters { sort: sort.to_owned(), ..Filters::default() };
    let queue = Queue {
        frame: Frame::default(),
        filters: &filters,
        jobs,
        n_rows: None,
        next: None,
        address: "/queue?user=ana",
        plan: None,
        now: minute(60),
    };
    queue.page()
}

#[test]
fn the_queue_sorts_by_a_column_and_stays_in_its_order_without_one() {
    let job = |id: &str, gpus: &str| Job {
        id: id.to_owned(),
        request: JobCreate { gpus: Some(gpus.to_owned()), ..JobCreate::default() },
        state: JobState::Running,
        run: JobRun { started_at: Some(minute(0)), ..JobRun::default() },
        ..Job::default()
    };
    let jobs = [job("9", "2"), job("10", "H100-80G:4"), job("8", "1")];
    let ids = |page: &str| {
        let rows = page.split("<th scope=\"row\"><a href=\"/jobs/").skip(1);
        rows.map(|row| row.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&queue(&jobs, "")), ["9", "10", "8"]);
    assert_eq!(ids(&queue(&jobs, "-gpus")), ["10", "9", "8"]);
    assert_eq!(ids(&queue(&jobs, "id")), ["8", "9", "10"]);
    let page = queue(&jobs, "-gpus");
    assert!(page.contains("href=\"/queue?user=ana&#38;sort=gpus\">GPUs</a>"), "{page}");
    assert!(page.contains("name=\"sort\" value=\"-gpus\""), "{page}");
    // No job waits, so no job has a start.
    assert!(!page.contains(">Start</a>"), "{page}");
}

#[test]
fn the_time_of_an_array_is_not_measured_against_the_limit_of_an_element() {
    let array = serde_json::json!({
        "indexes": "0-9", "n_elements": 10, "n_by_state": {"running": 2}, "n_gpus": 0, "ran_s": 0.0,
    });
    let Ok(array) = serde_json::from_value(array) else { panic!("an array") };
    let array = Job { array: Some(array), ..running("5", 3.0, None) };
    let page = queue(&[array], "");
    assert!(page.contains("0 of 10 ended, limit 3 min each"), "{page}");
    assert!(!page.contains("1 h of 3 min"), "{page}");
}
