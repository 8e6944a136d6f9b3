//! The figures of a queue simulation, on invented results.

use gpool_lab::simulate::figures;
use gpool_trace::queue::Outcome;
use gpool_trace::{Layout, Nodes};
use serde_json::{Value, json};

use crate::played::outcome;

fn made(outcome: Outcome) -> Value {
    let layout = Layout::from(Nodes { n: 2, n_gpus: 4 });
    figures::of(&[("fifo".to_owned(), outcome)], &layout).unwrap()
}

/// The values of a column.
fn column(figure: &Value, key: &str) -> Vec<f64> {
    figure[key].as_array().unwrap().iter().filter_map(Value::as_f64).collect()
}

#[test]
fn waits_are_counted_by_length_size_and_day() {
    // Half of the jobs wait for a minute, the others for an hour.
    let made = made(outcome(30, |_, ix| if ix % 2 == 0 { 1 } else { 60 }));
    let waits = &made["waits"][0];
    let (wait_s, within) = (column(waits, "wait_s"), column(waits, "jobs_within"));
    let at = |seconds: f64| within[wait_s.iter().position(|it| *it == seconds).unwrap()];
    assert_eq!([at(1.0), at(60.0), at(600.0), at(3_600.0)], [0.0, 0.5, 0.5, 1.0]);
    let sizes = &made["sizes"][0];
    assert_eq!(sizes["gpus"], json!(["<1", "1", "2", "3-4", "5-8", "9-16", ">16"]));
    assert_eq!(sizes["jobs"], json!([0, 600, 0, 0, 0, 0, 0]));
    assert_eq!(
        (&sizes["wait_mean_s"][0], &sizes["wait_mean_s"][1]),
        (&Value::Null, &1830.0.into())
    );
    let times = &made["times"][0];
    assert_eq!(column(times, "jobs").iter().sum::<f64>(), 600.0);
    assert_eq!(column(times, "from_s")[1], 86_400.0);
}

#[test]
fn owners_are_those_with_the_most_gpu_time_first() {
    let made = made(outcome(4, |_, _| 0));
    let owners = &made["owners"][0];
    assert_eq!(owners["owner"], json!(["blue", "red"]));
    assert_eq!((&owners["jobs"], &owners["gpu_hours"]), (&json!([52, 28]), &json!([52.0, 28.0])));
    let gpus = &made["gpus"][0];
    let (from_s, until_s) = (column(gpus, "from_s"), column(gpus, "until_s"));
    let hours = |ix: usize| -> f64 {
        let spans = until_s.iter().zip(&from_s).map(|(until, from)| (until - from) / 3_600.0);
        let gpus = gpus["gpus"][ix].as_array().unwrap().iter().map(|it| it.as_f64().unwrap());
        gpus.zip(spans).map(|(gpus, hours)| gpus * hours).sum()
    };
    // The last job starts at the end of the window.
    assert!((hours(0) - 51.0).abs() < 1e-9 && (hours(1) - 28.0).abs() < 1e-9);
    let fairness = &made["fairness"][0];
    assert_eq!((&fairness["index_mean"], &fairness["index_min"]), (&1.0.into(), &1.0.into()));
}

#[test]
fn runs_are_those_of_one_day_on_the_first_nodes() {
    let made = made(outcome(3, |day, _| if day == 1 { 0 } else { 30 }));
    let runs = &made["runs"][0];
    assert_eq!(runs["rows"].as_array().unwrap().len(), 8);
    assert_eq!(
        (&runs["rows"][5], &runs["shown_s"]),
        (&"node 1 GPU 1".into(), &json!([0.0, 86_400.0]))
    );
    assert!(column(runs, "row").iter().all(|row| *row == 0.0));
    let busy: f64 = column(runs, "until_s")
        .iter()
        .zip(column(runs, "from_s"))
        .map(|(to, from)| to - from)
        .sum();
    assert!((runs["in_use"].as_f64().unwrap() - busy / 86_400.0 / 8.0).abs() < 1e-9);
}

#[test]
fn without_jobs_there_are_no_figures() {
    let layout = Layout::from(Nodes { n: 1, n_gpus: 1 });
    assert!(figures::of(&[("fifo".to_owned(), Outcome::default())], &layout).is_none());
    assert!(figures::of(&[], &layout).is_none());
}
