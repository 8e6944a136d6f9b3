//! The answers that a client gets. The server may have another version, or be another program; and
//! users choose much of the text in its answers.

use std::collections::BTreeSet;

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use gpool_cli::args::list::Format;
use gpool_cli::failure::Failure;
use gpool_cli::render::clock::Clock;
use gpool_cli::render::list::{Appearance, Row};
use gpool_cli::render::view::View;
use gpool_client::{Client, Error, JobsQuery, LogQuery};
use gpool_verbs::render::jobs::JOBS;
use gpool_verbs::render::{events, job, why};
use gpool_wire::{Event, Job, Time};
use tempfile::TempDir;

use crate::input::{are_shown, choose, is_problem, is_shown};

/// Most events and log bytes that are read of one answer.
const READ_MAX: u64 = 1 << 16;

/// Runs one check. The first byte chooses the request, and whether the input is only the body of a
/// valid answer, which a fuzzer rarely produces.
pub fn check(input: &[u8]) {
    let Some((asked, answer)) = choose(input, 10) else { return };
    let answer = if asked < 5 { answer.to_vec() } else { in_order(answer) };
    let client = SERVER.lock().unwrap_or_else(PoisonError::into_inner).client(answer);
    match asked % 5 {
        0 => list(&client),
        1 => said(client.job("17").map(|job| one(&job))),
        2 => said(client.why("17").map(|why| are_shown(&why::page(&why, &view(&UTC))))),
        3 => said(client.events(None).map(|events| watched(events.take(100)))),
        _ => said(client.logs("17", &LogQuery::default()).map(|log| {
            // Output of a job has no rules; the check is only that reading ends.
            let _ = log.take(READ_MAX).read_to_end(&mut Vec::new());
        })),
    }
}

static UTC: LazyLock<Clock> = LazyLock::new(|| Clock::new(true));

fn view(clock: &Clock) -> View<'_> {
    let now: Time = "2026-11-20T15:30:00Z".parse().expect("a valid time");
    View { clock, now, me: "ana" }
}

fn in_order(body: &[u8]) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let mut answer = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(body);
    answer
}

fn list(client: &Client) {
    let jobs = match client.jobs(&JobsQuery::default()) {
        Ok(list) => list.items,
        Err(error) => return said(Err(error)),
    };
    jobs.iter().for_each(one);
    let row = |item: Job| Row { json: serde_json::to_value(&item).unwrap_or_default(), item };
    let rows: Vec<Row<Job>> = jobs.into_iter().map(row).collect();
    for form in [Format::Wide, Format::Json, Format::Jsonl, Format::Name] {
        let marked = BTreeSet::new();
        let view = view(&UTC);
        let (width, footer, title) = (Some(80), "", "");
        let look =
            Appearance { view, width, colors: false, footer, marked: &marked, title, bars: None };
        are_shown(&JOBS.text(&rows, form, &[], &look).expect("the usual columns are there"));
    }
}

fn one(job: &Job) {
    are_shown(&job::page(job, Some(std::slice::from_ref(job)), &view(&UTC)));
}

fn watched(events: impl Iterator<Item = Result<Event, Error>>) {
    for event in events {
        match event {
            Ok(event) => events::line(&event, &view(&UTC)).iter().for_each(|line| is_shown(line)),
            Err(error) => return said(Err(error)),
        }
    }
}

/// Checks the error that a user sees for an invalid answer.
fn said(answer: Result<(), Error>) {
    let Err(error) = answer else { return };
    let problem = error.problem();
    let is_ours = !matches!(error, Error::Problem(_));
    if is_ours {
        is_problem(&problem);
    }
    are_shown(&Failure::from(problem).text(false));
}

static SERVER: LazyLock<Mutex<Server>> = LazyLock::new(|| Mutex::new(Server::start()));

/// Listens, and gives each request the next answer; closes the connection if there is none.
struct Server {
    folder: TempDir,
    answers: Sender<Vec<u8>>,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a socket can be made");
        let listener = UnixListener::bind(folder.path().join("s")).expect("a socket can be bound");
        let (answers, next) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("connections can be taken");
                // Older answers belong to requests that never connected.
                if let Some(answer) = next.try_iter().last() {
                    reply(stream, &answer);
                }
            }
        });
        Self { folder, answers }
    }

    /// A client; its first request gets this answer.
    fn client(&self, answer: Vec<u8>) -> Client {
        self.answers.send(answer).expect("the server runs as long as the program");
        let client = Client::at(&self.folder.path().join("s"));
        client.with_retries(Duration::ZERO).with_timeout(Some(Duration::from_secs(5)))
    }
}

fn reply(mut stream: UnixStream, answer: &[u8]) {
    let mut request = Vec::new();
    let mut part = [0; 4096];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(n_read @ 1..) => request.extend_from_slice(&part[..n_read]),
            _ => return,
        }
    }
    // A client may close the connection early.
    let _ = stream.write_all(answer);
}
