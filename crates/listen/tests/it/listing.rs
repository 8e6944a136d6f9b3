//! Pages of long lists, and slow reads.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use gpool_client::{Client, JobsQuery};
use gpool_wire::{JobCreate, JobPatch};

use crate::rig::{ANA, BO, Rig, raw, request};
use gpool_server::Limits;

const MIB: usize = 1 << 20;

fn held(command: Vec<String>) -> JobCreate {
    JobCreate { command, hold: true, ..JobCreate::default() }
}

fn lines(job: &JobCreate, n: usize) -> String {
    format!("{}\n", serde_json::to_string(job).unwrap()).repeat(n)
}

fn submit(client: &Client, job: &JobCreate, n: usize) -> u64 {
    let answer = client.submit_many(&mut lines(job, n).as_bytes(), None).unwrap();
    answer.first.parse().unwrap()
}

/// The ids of every page, and the size of the largest.
fn pages(socket: &std::path::Path, path: &str) -> (Vec<String>, usize) {
    let (mut ids, mut largest, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let asked = format!("GET {path}{cursor} HTTP/1.0\r\nhost: gpool\r\n\r\n");
        let (status, _, body) = raw(socket, &asked);
        assert_eq!(status, 200, "{body}");
        largest = largest.max(body.len());
        let page: serde_json::Value = serde_json::from_str(&body).unwrap();
        let items = page["items"].as_array().unwrap();
        assert!(!items.is_empty(), "a page that is not the last has something");
        ids.extend(items.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) if path.contains("elements") => cursor = format!("&from={next}"),
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (ids, largest),
        }
    }
}

#[test]
fn a_page_of_large_jobs_ends_early_and_the_next_goes_on() {
    let mut rig = Rig::new();
    let (socket, client) = (rig.socket(ANA), rig.client(ANA));
    let large = held(vec!["echo".to_owned(), "x".repeat(100_000)]);
    submit(&client, &large, 100);
    let wanted: Vec<String> = (1..=100).map(|id: u64| id.to_string()).collect();
    let (ids, largest) = pages(&socket, "/api/v1/jobs?limit=10000");
    assert_eq!(ids, wanted);
    assert!(largest <= 8 * MIB && largest > 7 * MIB, "{largest}");
    // The client reads on.
    let all = client.every_job(JobsQuery { limit: Some(10_000), ..JobsQuery::default() });
    assert_eq!(all.map(|job| job.unwrap().id).collect::<Vec<_>>(), wanted);
    // The same of jobs that have ended, and of both.
    let some: Vec<String> = wanted[..95].to_vec();
    client.cancel(&some).unwrap();
    for state in ["ended", "all"] {
        let (ids, largest) = pages(&socket, &format!("/api/v1/jobs?limit=10000&state={state}"));
        assert!(largest <= 8 * MIB && largest > 7 * MIB, "{state}: {largest}");
        let n = if state == "all" { 100 } else { 95 };
        assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (n, n), "{state}");
    }
    assert_eq!(client.totals(&JobsQuery::default()).unwrap().n_jobs, 95);
    // Limits still count jobs.
    let few = JobsQuery { limit: Some(2), state: Some("all".to_owned()), ..JobsQuery::default() };
    let page = client.jobs(&few).unwrap();
    assert_eq!((page.items.len(), page.total), (2, Some(100)));
}

#[test]
fn groups_are_folded_and_belong_to_their_user() {
    let mut rig = Rig::new();
    let (ana, bo) = (rig.client(ANA), rig.client(BO));
    let place =
        |group: &str| JobCreate { group: Some(group.to_owned()), ..held(vec!["true".to_owned()]) };
    submit(&ana, &held(vec!["true".to_owned()]), 1);
    submit(&ana, &place("tuning/trial/1"), 3);
    submit(&bo, &place("tuning"), 2);
    submit(&ana, &JobCreate { name: Some("other".to_owned()), ..place("tuning") }, 1);
    let listed = |client: &Client, query: JobsQuery| {
        let jobs = client.every_job(JobsQuery { limit: Some(1), ..query });
        jobs.map(|job| job.unwrap()).collect::<Vec<_>>()
    };
    let folded = || JobsQuery { fold_groups: true, ..JobsQuery::default() };
    let rows = listed(&ana, folded());
    let words = |job: &gpool_wire::Job| {
        (job.reference(), job.group.as_ref().map(|group| (group.name.clone(), group.n_jobs)))
    };
    let group = |name: &str, n| Some((name.to_owned(), n));
    let expected = [
        ("1".to_owned(), None),
        ("group:tuning".to_owned(), group("tuning", 4)),
        ("5".to_owned(), group("(private)", 2)),
    ];
    assert_eq!(rows.iter().map(words).collect::<Vec<_>>(), expected);
    assert_eq!(rows[1].group.as_ref().unwrap().words(), "4 jobs · 4 held");
    // A row counts the jobs that match.
    let named = JobsQuery { name: Some("true".to_owned()), ..folded() };
    assert_eq!(listed(&ana, named)[1].group.as_ref().unwrap().n_jobs, 3);
    let first = JobsQuery { limit: Some(1), ..folded() };
    assert_eq!(ana.jobs(&first).unwrap().total, Some(3), "rows, not jobs");
    let ids = |client: &Client, state: &str| {
        let (group, state) = (Some("tuning".to_owned()), Some(state.to_owned()));
        let jobs = listed(client, JobsQuery { group, state, ..JobsQuery::default() });
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(
        (ids(&ana, "active").join(" "), ids(&bo, "active").join(" ")),
        ("2 3 4 7".into(), "5 6".into())
    );
    // The row is that of the first job that is listed: also once that has ended.
    ana.cancel(&["2".to_owned()]).unwrap();
    assert_eq!(listed(&ana, folded())[1].id, "3");
    assert_eq!((ids(&ana, "ended").join(" "), ids(&bo, "ended").len()), ("2".into(), 0));
}

#[test]
fn a_page_of_large_elements_ends_early_and_the_next_goes_on() {
    let mut rig = Rig::new();
    let (socket, client) = (rig.socket(ANA), rig.client(ANA));
    let mut job = held(vec!["echo".to_owned(), "x".repeat(100_000)]);
    job.array = Some("1-100".to_owned());
    client.submit(&job, None).unwrap();
    let (ids, largest) = pages(&socket, "/api/v1/jobs/1/elements?limit=10000");
    assert_eq!(ids, (1..=100).map(|index: u64| format!("1.{index}")).collect::<Vec<_>>());
    assert!(largest <= 8 * MIB && largest > 7 * MIB, "{largest}");
}

#[test]
fn one_thing_larger_than_a_page_is_a_page() {
    let mut rig = Rig::new();
    let (socket, client) = (rig.socket(ANA), rig.client(ANA));
    let words = std::iter::once("echo".to_owned());
    let large = held(words.chain((0..90).map(|_| "x".repeat(100_000))).collect());
    for _ in 0..2 {
        client.submit(&large, None).unwrap();
    }
    assert_eq!(pages(&socket, "/api/v1/jobs?limit=10").0, ["1", "2"]);
}

#[test]
fn a_job_that_waits_for_many_is_shown_with_the_first_and_their_number() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    submit(&client, &held(vec!["true".to_owned()]), 300);
    let after = (1..=300).map(|id| format!("end:{id}")).collect();
    let job = JobCreate { after, ..held(vec!["true".to_owned()]) };
    let job = JobCreate { hold: false, ..job };
    let forecast = client.forecast(&job).unwrap();
    assert_eq!((forecast.reasons.len(), forecast.n_more_reasons), (100, 200));
    let id = client.submit(&job, None).unwrap().id;
    let all = JobsQuery { limit: Some(1000), ..JobsQuery::default() };
    let listed = client.jobs(&all).unwrap().items.pop().unwrap();
    let shown = client.job(&id).unwrap();
    for job in [listed, shown] {
        assert_eq!((job.wait.reasons.len(), job.wait.n_more_reasons), (8, 292));
        assert_eq!(job.wait.reasons[7].facts["job"], "8");
    }
    let why = client.why(&id).unwrap();
    assert_eq!((why.reasons.len(), why.n_more_reasons), (100, 200));
    // Those that end are counted no more; it goes on with the last of them.
    let ids: Vec<String> = (1..=299).map(|id: u64| id.to_string()).collect();
    client.cancel(&ids).unwrap();
    let job = client.job(&id).unwrap();
    assert_eq!(
        (job.state.as_str(), job.wait.reasons.len(), job.wait.n_more_reasons),
        ("waiting", 1, 0)
    );
    client.cancel(&["300".to_owned()]).unwrap();
    rig.until("it ends", || client.job(&id).unwrap().state.is_end());
    assert_eq!(client.job(&id).unwrap().state.as_str(), "succeeded");
}

#[test]
fn dependencies_are_limited_for_each_job_and_each_user() {
    let limits = Limits { job_dependencies: 3, dependencies: 7, ..Limits::default() };
    let mut rig = Rig::with(limits);
    let (ana, bo) = (rig.client(ANA), rig.client(BO));
    submit(&ana, &held(vec!["true".to_owned()]), 4);
    let waits = |n: u64| JobCreate {
        after: (1..=n).map(|id| format!("end:{id}")).collect(),
        ..held(vec!["true".to_owned()])
    };
    let refused = |error: gpool_client::Error, number: &str| {
        let problem = error.problem();
        assert_eq!((problem.code.as_str(), error.exit_code()), ("GP0522", 7), "{error}");
        assert!(format!("{problem:?}").contains(number), "{problem:?}");
    };
    refused(ana.submit(&waits(4), None).unwrap_err(), "a job may wait for at most 3 other jobs");
    refused(ana.forecast(&waits(4)).unwrap_err(), "a job may wait for at most 3 other jobs");
    let one_of = JobCreate { after: Vec::new(), after_one: waits(4).after, ..waits(0) };
    refused(ana.submit(&one_of, None).unwrap_err(), "a job may wait for at most 3 other jobs");
    // A repeated request is answered, not refused.
    let first = ana.submit(&waits(3), Some("k")).unwrap().id;
    let second = ana.submit(&waits(3), None).unwrap().id;
    assert_eq!(ana.submit(&waits(3), Some("k")).unwrap().id, first);
    refused(ana.submit(&waits(2), None).unwrap_err(), "your jobs have 6; this would add 2");
    let mut two = lines(&waits(1), 2);
    refused(ana.submit_many(&mut two.as_bytes(), None).unwrap_err(), "this would add 2");
    two = lines(&waits(3), 3);
    refused(ana.submit_many(&mut two.as_bytes(), None).unwrap_err(), "together");
    let third = ana.submit(&waits(1), None).unwrap().id;
    let patch = |n| {
        let mut patch = JobPatch::default();
        patch.set("after", |to| to.after = waits(n).after);
        patch
    };
    refused(ana.edit(&third, &patch(2), None).unwrap_err(), "your jobs have 7");
    refused(
        ana.edit(&third, &patch(4), None).unwrap_err(),
        "a job may wait for at most 3 other jobs",
    );
    // Fewer are always allowed, and what ends makes room; others have as much.
    ana.edit(&third, &patch(0), None).unwrap();
    ana.cancel(&[second]).unwrap();
    ana.edit(&third, &patch(3), None).unwrap();
    let own = submit(&bo, &held(vec!["true".to_owned()]), 1);
    let after = vec![format!("end:{own}")];
    bo.submit(&JobCreate { after, ..held(vec!["true".to_owned()]) }, None).unwrap();
}

#[test]
fn reads_that_take_for_ever_keep_no_other_user_waiting() {
    let mut rig = Rig::new();
    let bo = rig.client(BO);
    let socket = rig.socket(ANA);
    let (release, wait) = mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    for _ in 0..100 {
        let wait = std::sync::Arc::clone(&wait);
        let work = move || {
            let _ = wait.lock().unwrap().recv();
        };
        rig.push_read(ANA, Box::new(work));
    }
    // Every thread that the first user may have is taken, and a hundred reads wait.
    let id = bo.submit(&held(vec!["true".to_owned()]), None).unwrap().id;
    assert_eq!(bo.jobs(&JobsQuery::default()).unwrap().items.len(), 1);
    assert_eq!(bo.why(&id).unwrap().reasons[0].code, "held_by_user");
    assert!(bo.gpus().is_ok() && bo.metrics().is_ok());
    // What needs no such read is answered to the first as well.
    assert_eq!(raw(&socket, &request("GET", &format!("/api/v1/jobs/{id}"), "")).0, 200);
    drop(release);
    assert_eq!(raw(&socket, &request("GET", "/api/v1/jobs", "")).0, 200);
}

#[test]
fn a_list_has_what_was_answered_before() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    // Copies of the state are shared and made at a rate, and yet none is older than the question.
    for n in 1..=50 {
        client.submit(&held(vec!["true".to_owned()]), None).unwrap();
        let listed = client.jobs(&JobsQuery::default()).unwrap();
        assert_eq!((listed.items.len(), listed.total), (n, Some(n as u64)));
    }
}

#[test]
fn a_job_that_ends_while_it_is_listed_is_listed_once() {
    let mut rig = Rig::new();
    let (socket, client) = (rig.socket(ANA), rig.client(ANA));
    // More than socket and server keep for a reader that waits, so that the archive is read later.
    submit(&client, &held(vec!["echo".to_owned(), "x".repeat(100_000)]), 40);
    let mut stream = UnixStream::connect(&socket).unwrap();
    let asked = "GET /api/v1/jobs?state=all&limit=100 HTTP/1.0\r\nhost: gpool\r\n\r\n";
    stream.write_all(asked.as_bytes()).unwrap();
    let mut answer = vec![0];
    stream.read_exact(&mut answer).unwrap();
    let all: Vec<String> = (1..=40).map(|id: u64| id.to_string()).collect();
    client.cancel(&all).unwrap();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let page: serde_json::Value = serde_json::from_str(body).unwrap();
    let ids = page["items"].as_array().unwrap().iter();
    let mut ids: Vec<u64> = ids.map(|it| it["id"].as_str().unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_job_that_ends_between_two_pages_is_told_of_once() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    submit(&client, &held(vec!["true".to_owned()]), 2);
    let pages = JobsQuery { state: Some("all".into()), limit: Some(1), ..JobsQuery::default() };
    let mut jobs = client.every_job(pages).map(|job| job.unwrap().id);
    assert_eq!(jobs.next().as_deref(), Some("1"));
    client.cancel(&["1".to_owned()]).unwrap();
    assert_eq!(jobs.collect::<Vec<_>>(), ["2"]);
}
