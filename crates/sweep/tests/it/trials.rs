//! Tests of `trials`.

use gpool_model::job::JobState;
use gpool_sweep::trials::{Study, has_trials};
use gpool_wire::array::{ArrayElement, ArrayStatus};
use gpool_wire::job_metrics::ElementMetrics;
use gpool_wire::{Job, JobCreate};

fn array(id: &str, group: &str) -> Job {
    let request = JobCreate {
        group: Some(group.to_owned()),
        metric: Some("loss:min".to_owned()),
        ..JobCreate::default()
    };
    Job { id: id.to_owned(), request, array: Some(ArrayStatus::default()), ..Job::default() }
}

fn element(array: &str, index: u32, state: JobState) -> Job {
    let params = vec![("lr".to_owned(), format!("0.{index}"))];
    let own = ArrayElement { array: array.to_owned(), index, item: None, params };
    Job { id: format!("{array}.{index}"), state, element: Some(own), ..Job::default() }
}

fn loss(element: &str, value: f64) -> ElementMetrics {
    let metrics = [("loss".to_owned(), value), ("step".to_owned(), 9.0)].into();
    ElementMetrics { id: element.to_owned(), metrics }
}

#[test]
fn the_best_trial_has_succeeded() {
    let mut study = Study::default();
    let (done, failed) = (JobState::Succeeded, JobState::Failed);
    let states = [done, failed, done, JobState::Running, done];
    let elements: Vec<Job> =
        (0..).zip(states).map(|(index, state)| element("7", index, state)).collect();
    let metrics = [loss("7.0", 0.5), loss("7.1", 0.1), loss("7.2", 0.25), loss("7.3", 0.2)];
    study.add_array(&array("7", "tune/trial"), &elements, &metrics);
    let best = study.best().expect("a best trial");
    assert_eq!((best.number, best.job.as_str(), best.value), (2, "7.2", Some(0.25)));
    assert_eq!(best.words(), "lr=0.2");
    let ranked: Vec<u64> = study.ranked().iter().map(|it| it.number).collect();
    assert_eq!(ranked, [1, 3, 2, 0, 4]);
    assert_eq!(study.n_by_state()["succeeded"], 3);
}

#[test]
fn the_value_of_an_end_outlives_the_metrics() {
    let mut ended = element("7", 0, JobState::Succeeded);
    let total = r#"{"cpu_user_s": 0, "cpu_system_s": 0, "memory_peak": 0, "objective": 0.125}"#;
    ended.usage.total = serde_json::from_str(total).expect("usage");
    let mut study = Study::default();
    study.add_array(&array("7", "tune/trial"), &[ended], &[loss("7.0", 0.5)]);
    assert_eq!(study.trials[&0].value, Some(0.125));
}

#[test]
fn a_retried_trial_counts_once_in_either_order() {
    let old = (array("7", "tune/trial/3"), [element("7", 0, JobState::Failed)]);
    let new = (array("12", "tune/trial/3"), [element("12", 0, JobState::Succeeded)]);
    for both in [[&old, &new], [&new, &old]] {
        let mut study = Study::default();
        both.iter().for_each(|(array, elements)| study.add_array(array, elements, &[]));
        let trials: Vec<(u64, &str)> =
            study.trials.values().map(|it| (it.number, it.job.as_str())).collect();
        assert_eq!(trials, [(3, "12.0")]);
    }
}

#[test]
fn only_arrays_in_the_role_have_trials() {
    assert!(has_trials(&array("7", "tune/trial/3")) && has_trials(&array("7", "tune/trial")));
    assert!(!has_trials(&array("7", "tune")) && !has_trials(&array("7", "tune/driver")));
    let mut study = Study::default();
    study.add_job(array("7", "tune/driver"));
    study.add_job(array("5", "tune/driver"));
    study.add_job(array("9", "tune/other"));
    assert_eq!(study.driver.map(|driver| driver.id), Some("7".to_owned()));
}
