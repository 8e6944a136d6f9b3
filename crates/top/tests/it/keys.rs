//! What keys do.

use gpool_model::JobVerb;
use gpool_model::{Millis, Timestamp};
use gpool_top::data::News;
use gpool_top::input::TopCommand;
use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Job, JobRun, PlacedOn, Time};

use crate::cluster::{jobs, now};
use crate::screen::{FULL, Screen};

fn act(verb: JobVerb, jobs: &[&str]) -> Vec<TopCommand> {
    vec![TopCommand::Act { verb, jobs: jobs.iter().map(|&id| id.to_owned()).collect() }]
}

#[test]
fn an_action_needs_a_yes() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    assert_eq!(screen.types("c"), []);
    let picture = screen.picture();
    assert!(picture.contains("cancel job 17 (train, of ana)? y / n"), "{picture}");
    assert_eq!(screen.types("n"), []);
    assert!(screen.picture().contains("not done: cancel job 17"));
    assert_eq!(screen.types("cy"), act(JobVerb::Cancel, &["17"]));
    assert_eq!(screen.types("jHy"), act(JobVerb::Hold, &["18"]));
    assert_eq!(screen.types("jRy"), act(JobVerb::Release { at: None }, &["19"]));
}

#[test]
fn an_action_that_does_not_apply_says_why() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    assert_eq!(screen.types("jpy"), []);
    screen.types("p");
    let picture = screen.picture();
    assert!(picture.contains("can't pause job 18: it is pending"), "{picture}");
}

#[test]
fn a_gpu_stands_for_its_job() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    assert_eq!(screen.types("<BackTab>cy"), act(JobVerb::Cancel, &["17"]));
    assert_eq!(screen.types("<End>cy"), []);
}

#[test]
fn tagged_jobs_are_changed_together() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    screen.types("  ");
    assert!(screen.picture().contains("Queue 3 · 2 tagged"), "{}", screen.picture());
    assert_eq!(screen.types("cy"), act(JobVerb::Cancel, &["17", "18"]));
    assert!(!screen.picture().contains("tagged"), "the tags are gone");
    // One tag counts too, not the selected row.
    screen.types("<Home> ");
    assert_eq!(screen.types("cy"), act(JobVerb::Cancel, &["17"]));
}

#[test]
fn a_filter_shows_rows_with_all_words_and_escape_removes_it() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    screen.types("/ANA swee");
    let picture = screen.picture();
    assert!(picture.contains(">19") && !picture.contains("eval"), "{picture}");
    // Letters of commands are text here.
    screen.types("q<Back><Enter>");
    assert_eq!(screen.types("cy"), act(JobVerb::Cancel, &["19"]));
    screen.types("<Esc>");
    assert!(screen.picture().contains(">19") && screen.picture().contains("eval"));
    screen.types("/zzz<Esc>");
    assert!(screen.picture().contains("Queue 3 ━"), "{}", screen.picture());
}

#[test]
fn the_selection_stays_on_its_job_when_rows_change_and_are_sorted() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    screen.types("j");
    screen.top.take(News::Jobs(jobs().split_off(1), None), now());
    assert!(screen.picture().contains(">18"));
    screen.types("ou!");
    let picture = screen.picture();
    assert!(picture.contains("by user, reversed") && picture.contains(">18"), "{picture}");
    screen.types("j");
    assert!(screen.picture().contains(">19"), "{}", screen.picture());
    assert_eq!(screen.top.wants().map(|job| job.id.clone()).as_deref(), Some("19"));
}

#[test]
fn the_detail_pane_turns_and_scrolls() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    let log: String = (1..=50).map(|n| format!("line {n}\n")).collect();
    screen.take(vec![News::Log { job: "17".to_owned(), text: log }]);
    screen.types("ll<Tab>");
    assert!(screen.picture().contains("line 50"), "output shows its end");
    screen.types("kk");
    let picture = screen.picture();
    assert!(!picture.contains("line 50") && picture.contains("line 48"), "{picture}");
    screen.types("z<Home>");
    assert!(screen.picture().contains("line 1 "), "{}", screen.picture());
}

#[test]
fn leaving_works_from_each_mode() {
    for keys in ["q", "c<Ctrl-C>", "/a<Ctrl-C>", "o<Ctrl-C>", "?<Ctrl-C>", "?xq"] {
        let mut screen = Screen::of_cluster(80, 24, FULL);
        assert_eq!(screen.types(keys), [TopCommand::Quit], "{keys}");
    }
}

#[test]
fn charts_begin_with_the_time_before_the_first_reading() {
    let points = |uuid: &str, utilization: Vec<Option<f64>>| GpuPoints {
        uuid: uuid.to_owned(),
        memory_used: vec![Some(f64::from(1 << 30) * 40.0); utilization.len()],
        utilization,
        ..GpuPoints::default()
    };
    let start = Time(Timestamp::new(now().0.get() - 20_000));
    // Two readings are a step of 4 seconds.
    let values = vec![Some(0.125), None, Some(0.25), Some(0.5), Some(1.0)];
    let gpus = vec![points("GPU-0", values.clone()), points("GPU-9", values)];
    let past = GpuHistory { start, step_s: 4, gpus };
    let mut history = gpool_top::history::History::default();
    let known = crate::cluster::gpus();
    history.add(&known);
    history.begin(&past, &known.iter().collect::<Vec<_>>(), Millis::from_secs(2), now());
    let (compute, memory) = history.of("GPU-0");
    let (eighth, quarter, half, one) = (Some(0.125), Some(0.25), Some(0.5), Some(1.0));
    let expected = [eighth, eighth, None, None, quarter, quarter, half, half, one, one, Some(0.94)];
    assert_eq!(compute, expected, "the reading is the newest");
    assert_eq!((memory[0], memory.len()), (Some(0.5), 11));
    assert_eq!(history.of("GPU-1").0, [Some(0.52)], "nothing is known of it");
    assert!(history.of("GPU-9").0.is_empty(), "it is gone");
    // Earlier values are those of other jobs.
    let placement = vec![PlacedOn {
        node: known[0].node.clone(),
        devices: vec![known[0].index],
        booked: None,
        uuids: vec!["GPU-0".to_owned()],
        gpus: None,
    }];
    let started_at = Some(Time(Timestamp::new(now().0.get() - 5000)));
    let run = JobRun { started_at, ..JobRun::default() };
    let job = Job { placement, run, ..Job::default() };
    let every = Millis::from_secs(2);
    let (compute, _) = history.of_job(&job, &known.iter().collect::<Vec<_>>(), every, now());
    assert_eq!(compute, [one, Some(0.94)]);
}

#[test]
fn the_past_of_gpus_is_in_their_chart() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    let points = GpuPoints {
        uuid: "GPU-0".to_owned(),
        utilization: vec![Some(1.0); 30],
        ..GpuPoints::default()
    };
    let start = Time(Timestamp::new(now().0.get() - 60_000));
    let past = GpuHistory { start, step_s: 2, gpus: vec![points] };
    assert!(!screen.picture().contains("in 1m"), "{}", screen.picture());
    screen.take(vec![News::Past(Box::new(past))]);
    assert!(screen.picture().contains("in 1m"), "{}", screen.picture());
}
