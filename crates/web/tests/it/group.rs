//! The page of a group.

use gpool_model::job::JobState;
use gpool_sweep::trials::Study;
use gpool_web::{Frame, GroupPage, Order, group_orders};
use gpool_wire::array::{ArrayElement, ArrayStatus};
use gpool_wire::job_metrics::{ElementMetrics, JobMetric, JobMetrics};
use gpool_wire::{Job, JobCreate};

use crate::minute;

fn array() -> Job {
    let request = JobCreate {
        group: Some("tune/trial".to_owned()),
        metric: Some("loss:min".to_owned()),
        ..JobCreate::default()
    };
    Job { id: "7".to_owned(), request, array: Some(ArrayStatus::default()), ..Job::default() }
}

/// Trials with these rates, losses and states.
fn study(trials: &[(&str, Option<f64>, JobState)]) -> Study {
    let mut elements = Vec::new();
    let mut metrics = Vec::new();
    for (index, (lr, loss, state)) in (0..).zip(trials) {
        let params =
            vec![("lr".to_owned(), (*lr).to_owned()), ("opt".to_owned(), "<b>".to_owned())];
        let id = format!("7.{index}");
        let own = ArrayElement { array: "7".to_owned(), index, item: None, params };
        elements.push(Job { id: id.clone(), state: *state, element: Some(own), ..Job::default() });
        let found = loss.map(|loss| ("loss".to_owned(), loss)).into_iter().collect();
        metrics.push(ElementMetrics { id, metrics: found });
    }
    let mut study = Study::default();
    study.add_array(&array(), &elements, &metrics);
    study
}

fn page(study: &Study, order: Order<'_>) -> String {
    let jobs = [array()];
    let losses = [Some(2.0), None, Some(0.5)];
    let metric = JobMetric { name: "loss".to_owned(), last: Some(0.5), points: losses.to_vec() };
    let curve = JobMetrics { step_s: 1, metrics: vec![metric], ..JobMetrics::default() };
    let curves: Vec<_> = study.best().map(|best| (best, &curve)).into_iter().collect();
    GroupPage {
        frame: Frame::default(),
        name: "tune",
        jobs: &jobs,
        is_part: false,
        study,
        curves: &curves,
        address: "/groups/tune",
        order,
        now: minute(1),
    }
    .page()
}

#[test]
fn a_sweep_shows_its_best_trial_and_its_charts() {
    let (done, failed) = (JobState::Succeeded, JobState::Failed);
    let study = study(&[
        ("1e-4", Some(2.0), done),
        ("1e-2", Some(0.5), done),
        ("1e-1", Some(0.25), failed),
        ("1e-3", None, JobState::Running),
    ]);
    let found = page(&study, Order::default());
    assert!(found.contains("4 trials · 1 <span class=\"state out\">failed</span>"), "{found}");
    assert!(found.contains("Best: <a href=\"/jobs/7.1\">trial 1</a>, loss 0.5"), "{found}");
    assert_eq!(found.matches("class=\"best\" d=").count(), 2, "{found}");
    // The rates span three decades, so their axis is logarithmic: 1e-2 is at two thirds.
    assert!(found.contains("d=\"M0 60.0L"), "{found}");
    assert!(!found.contains("<b>\""), "{found}");
    let trials = |page: &str| -> Vec<String> {
        let rows = page.split("<th scope=\"row\">").skip(1).take(4);
        rows.map(|row| row.split('<').next().unwrap().to_owned()).collect()
    };
    assert_eq!(trials(&found), ["2", "1", "0", "3"]);
    let sorted = page(&study, Order::of("-trial"));
    assert_eq!(trials(&sorted), ["3", "2", "1", "0"]);
    assert!(group_orders().contains(&"trial"));
}

#[test]
fn a_group_without_trials_has_its_jobs() {
    let found = page(&Study::default(), Order::default());
    assert!(found.contains("1 jobs · 1 <span class=\"state"), "{found}");
    assert!(!found.contains("Best:") && !found.contains("class=\"parallel\""), "{found}");
    // One value is no chart.
    let one = study(&[("1", Some(1.0), JobState::Succeeded)]);
    assert!(!page(&one, Order::default()).contains("class=\"parallel\""));
}
