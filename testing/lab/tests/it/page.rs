//! Pages of invented results: their texts and their validity.

use std::path::Path;

use gpool_model::{MilliGpu, Millis, Timestamp};
use gpool_trace::interval::Mean;
use gpool_trace::queue::{Outcome, Played, Ran, Terms};
use gpool_trace::{Layout, Nodes};

use gpool_lab::simulate::page::packing::{Packing, Seed};
use gpool_lab::simulate::page::queue::Queue;
use gpool_lab::simulate::page::{Grid, by_how_much, interval, listed, packing, queue, verdict};

const HOUR: u64 = 3_600_000;

/// Jobs of one hour, twenty per day, with waits given by `minutes` of the day and the index.
fn outcome(n_days: u64, minutes: impl Fn(u64, u64) -> u64) -> Outcome {
    let mut jobs = Vec::new();
    for (day, ix) in (0..n_days).flat_map(|day| (0..20).map(move |ix| (day, ix))) {
        let submitted_at = Timestamp::new(1_000_000 + (day * 24 + ix) * HOUR);
        let from = submitted_at.after(Millis::new(minutes(day, ix) * 60_000));
        let until = from.after(Millis::new(HOUR));
        let owner = if ix % 3 == 0 { "<script>alert('red')</script>" } else { "blue & co" };
        jobs.push(Played {
            owner: owner.into(),
            runs: vec![Ran { from, until, devices: vec![(0, 0)] }],
            submitted_at,
            ended_at: until,
            duration: Millis::new(HOUR),
            gpus: MilliGpu::DEVICE,
        });
    }
    let came =
        jobs.first().zip(jobs.last()).map(|(first, last)| (first.submitted_at, last.submitted_at));
    Outcome { jobs, came, ..Outcome::default() }
}

fn page(played: Vec<(&str, Outcome)>, is_part: bool) -> String {
    let played: Vec<(String, Outcome)> =
        played.into_iter().map(|(policy, it)| (policy.to_owned(), it)).collect();
    let page = queue::page(Queue {
        trace: Path::new("<b>.csv"),
        is_store: false,
        left_out: None,
        n_jobs: 7,
        cluster: &Layout::from(Nodes { n: 2, n_gpus: 4 }),
        terms: Terms {
            are_ends_known: false,
            are_preemptible: false,
            restart: Millis::ZERO,
            forecast_every: None,
        },
        played: &played,
        is_part,
        table: Grid::default(),
    });
    assert_page(&page);
    page
}

fn seeds(losses: &[f64]) -> Vec<Seed> {
    let seed = |(seed, loss): (u64, &f64)| {
        let filled = vec![(0.9, 0.89), (1.0, 1.0 - loss), (1.3, 0.97)];
        Seed { seed, loss: *loss, filled, of_eight: Some(loss / 2.0) }
    };
    (1..).zip(losses).map(seed).collect()
}

fn packed(measured: &[(&str, &[f64])], churn: Option<(f64, usize)>) -> String {
    let page = packing::page(Packing {
        nodes: Path::new("nodes.csv"),
        tasks: Path::new("tasks.csv"),
        n_nodes: 2,
        n_gpus: 16,
        n_tasks: 100,
        churn,
        measured: measured.iter().map(|(it, losses)| ((*it).to_owned(), seeds(losses))).collect(),
        is_part: false,
        table: Grid::default(),
    });
    assert_page(&page);
    page
}

/// Checks that the page loads and runs nothing, that texts from files are escaped, and that plots
/// are valid XML.
fn assert_page(page: &str) {
    for word in
        ["http://", "https://", "<script", "<link", "<img", "src=", "url(", "@import", "<b>"]
    {
        assert!(!page.contains(word), "{word}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf "), "{page}");
    for picture in page.split("<svg").skip(1) {
        let (picture, _) = picture.split_once("</svg>").expect("it ends");
        assert_xml(&format!("<svg{picture}</svg>"));
    }
}

/// Checks that tags are closed in order, attributes are quoted, and special characters are escaped.
fn assert_xml(text: &str) {
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, between) = part.split_once('>').expect("a tag ends");
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
        for signs in [tag, between] {
            for sign in signs.split('&').skip(1) {
                let (name, _) = sign.split_once(';').expect("a sign ends");
                assert!(name.trim_start_matches('#').chars().all(char::is_alphanumeric), "{name}");
            }
        }
        let name = tag.trim_matches('/').split(' ').next().expect("a tag has a name");
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name), "{text}"),
            (false, false) => open.push(name),
            (false, true) => {}
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

fn has_warnings(page: &str) -> bool {
    page.contains("<strong>Warning</strong>")
}

#[test]
fn a_long_window_that_tells_policies_apart_has_no_warning() {
    let (slow, fast) = (outcome(30, |day, ix| 60 + day % 3 + ix), outcome(30, |_, ix| 30 + ix));
    let page = page(vec![("fifo", slow), ("fair", fast)], false);
    assert!(!has_warnings(&page), "{page}");
    let answer = "Average wait: 70 minutes with fifo, 40 with fair: 31 minutes shorter (95 % \
                  confidence interval: 30.7 minutes to 31.3 minutes).";
    assert!(page.contains(answer), "{page}");
}

#[test]
fn the_sentence_turns_with_the_policies() {
    let (slow, fast) = (outcome(30, |day, ix| 60 + day % 3 + ix), outcome(30, |_, ix| 30 + ix));
    let page = page(vec![("fair", fast), ("fifo", slow)], false);
    let answer = "Average wait: 40 minutes with fair, 70 with fifo: 31 minutes longer (95 %";
    assert!(page.contains(answer), "{page}");
}

#[test]
fn a_window_that_is_too_small_is_warned_of() {
    let page = page(
        vec![("fifo", outcome(1, |_, ix| 60 + ix)), ("fair", outcome(1, |_, ix| 30 + ix))],
        false,
    );
    assert!(page.contains("too short: its jobs were submitted on 1 day."), "{page}");
    assert!(page.contains("difference between fifo and fair is not significant"), "{page}");
    let answer = "70 minutes with fifo, 40 with fair; the difference is not significant.";
    assert!(page.contains(answer), "{page}");
}

#[test]
fn days_that_differ_either_way_tell_nothing() {
    let (one, other) = (outcome(30, |_, _| 60), outcome(30, |day, _| 30 + 61 * (day % 2)));
    let page = page(vec![("fifo", one), ("fair", other)], false);
    assert!(page.contains("difference between fifo and fair is not significant"), "{page}");
    assert!(!page.contains("too short"), "{page}");
}

#[test]
fn days_like_the_one_before_are_warned_of() {
    let (one, other) = (outcome(40, |_, _| 60), outcome(40, |day, _| 120 + 10 * (day / 10)));
    let page = page(vec![("fifo", one), ("fair", other)], false);
    assert!(page.contains("The difference between fifo and fair on one day resembles"), "{page}");
}

#[test]
fn one_policy_is_compared_with_nothing() {
    let page = page(vec![("fifo", outcome(2, |_, ix| ix))], false);
    assert!(page.contains("Average wait: 9.5 minutes with fifo; 5 % of the jobs start"), "{page}");
    assert!(!page.contains("job by job") && !has_warnings(&page), "{page}");
}

#[test]
fn without_jobs_there_is_no_answer_and_a_partial_result_is_marked() {
    let page = page(vec![("fifo", Outcome::default()), ("fair", Outcome::default())], true);
    assert!(page.contains("No job ran: there is no result."), "{page}");
    assert!(page.contains("This result is partial: the simulation was interrupted."), "{page}");
}

#[test]
fn policies_are_compared_by_the_jobs_that_both_had() {
    let (all, part) = (outcome(30, |_, _| 60), outcome(12, |day, _| 30 + day % 2));
    let page = page(vec![("fifo", all), ("fair (part)", part)], true);
    assert!(page.contains("<td>240</td>"), "{page}");
}

#[test]
fn names_are_written_out() {
    let page = page(vec![("fifo", outcome(2, |_, ix| ix))], false);
    assert!(page.contains("&#60;script&#62;alert(&#39;red&#39;)&#60;/script&#62;"), "{page}");
    assert!(page.contains("blue &#38; co") && page.contains("&#60;b&#62;.csv"), "{page}");
}

#[test]
fn the_policy_with_fewer_idle_gpus_is_named_and_few_seeds_cause_a_warning() {
    let losses: (&[f64], &[f64]) =
        (&[0.05, 0.052, 0.051, 0.049, 0.05], &[0.04, 0.041, 0.042, 0.039, 0.04]);
    let page = packed(&[("fgd", losses.0), ("rollout", losses.1)], None);
    assert!(!has_warnings(&page), "{page}");
    let answer = "5.04 % of the GPUs are idle with fgd, 4.04 % with rollout: 1.00 percentage \
                  points less (95 % confidence interval: ";
    assert!(page.contains(answer), "{page}");
    let page = packed(&[("fgd", &losses.0[..2]), ("rollout", &losses.1[..2])], None);
    assert!(page.contains("There are too few seeds: 2 seeds."), "{page}");
    let page = packed(&[("fgd", &losses.0[..1])], None);
    assert!(
        page.contains("5.00 % of the GPUs are idle with fgd.") && !has_warnings(&page),
        "{page}"
    );
    let page = packed(&[("fgd", losses.1), ("rollout", losses.0)], Some((0.95, 8)));
    assert!(
        page.contains("4.04 % of the requested GPUs are rejected with fgd, 5.04 % with rollout"),
        "{page}"
    );
    assert!(page.contains("1.00 percentage points more (95 % confidence interval: "), "{page}");
    assert!(page.contains("up to 8 tasks can move for a task"), "{page}");
}

#[test]
fn seeds_that_are_alike_tell_nothing() {
    let losses = [0.05, 0.052, 0.051, 0.049, 0.05];
    let other = [0.052, 0.05, 0.049, 0.051, 0.05];
    let page = packed(&[("fgd", &losses), ("rollout", &other)], None);
    assert!(page.contains("difference between fgd and rollout is not significant"), "{page}");
}

#[test]
fn names_stand_in_a_sentence() {
    assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
}

#[test]
fn a_smaller_value_is_called_less() {
    let mean = |mean: f64, half: f64| Mean {
        mean,
        n_blocks: 20,
        interval: Some((mean - half, mean + half)),
        correlation: 0.0,
    };
    let text = |value: f64| format!("{value:.1} h");
    let said = |it: Mean| by_how_much(&it, ("less", "more"), text);
    let interval_of_2 = "(95 % confidence interval: 1.5 h to 2.5 h)";
    assert_eq!(said(mean(-2.0, 0.5)), format!(": 2.0 h less {interval_of_2}"));
    assert_eq!(said(mean(2.0, 0.5)), format!(": 2.0 h more {interval_of_2}"));
    assert_eq!(said(mean(-2.0, 3.0)), "; the difference is not significant");
    assert_eq!(interval(&mean(-2.0, 3.0), text), "−5.0 h … +1.0 h");
    assert_eq!(verdict(&mean(-2.0, 3.0), ("less", "more")), "not significant");
    assert_eq!(verdict(&mean(-2.0, 1.0), ("less", "more")), "less");
}
