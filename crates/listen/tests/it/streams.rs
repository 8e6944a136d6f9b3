//! Events and logs: live streams, and the position at which a reader resumes.

use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::time::Duration;

use gpool_client::{Client, LogQuery, LogStream};
use gpool_model::job::JobState;
use gpool_wire::event::EventKind;
use gpool_wire::{Event, JobCreate, Time};

use crate::rig::{ANA, Rig, me, raw, request};

fn job(program: &str) -> JobCreate {
    JobCreate { command: vec![program.to_owned()], ..JobCreate::default() }
}

fn is(event: &Event, id: &str, wanted: JobState) -> bool {
    matches!(&event.kind, EventKind::JobState { job, state, .. } if job == id && *state == wanted)
}

fn read(client: &Client, id: &str, query: &LogQuery) -> String {
    let mut text = String::new();
    client.logs(id, query).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn events_go_on_where_they_were() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    let mut events = client.events(None).unwrap();
    client.submit(&job("true"), None).unwrap();
    let mut seen = Vec::new();
    while !seen.last().is_some_and(|event| is(event, "1", JobState::Succeeded)) {
        seen.push(events.next().unwrap().unwrap());
    }
    assert!(is(&seen[0], "1", JobState::Pending), "{seen:?}");
    let after_first = Some(seen[0].id.clone());
    let again = client.events(after_first).unwrap().take(seen.len() - 1);
    assert_eq!(again.map(Result::unwrap).collect::<Vec<_>>(), seen[1..]);
}

#[test]
fn a_place_that_is_not_known_has_to_be_read_anew() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    client.submit(&job("true"), None).unwrap();
    for place in ["7-1", "nonsense", ""] {
        let mut events = client.events(Some(place.to_owned())).unwrap();
        let first = events.next().unwrap().unwrap();
        assert_eq!(first.kind, EventKind::Resync, "{place:?}");
    }
}

#[test]
fn streams_end_when_the_server_does() {
    let mut rig = Rig::new();
    let client = rig.client(ANA).with_retries(std::time::Duration::ZERO);
    let mut events = client.events(None).unwrap();
    rig.stop_serving();
    let error = events.next().unwrap().unwrap_err();
    assert_eq!(error.exit_code(), 3, "{error}");
    assert!(events.next().is_none());
}

#[test]
fn logs_are_the_bytes_that_were_written() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    client.submit(&job("sleep"), None).unwrap();
    assert_eq!(read(&client, "1", &LogQuery::default()), "", "nothing yet");
    std::fs::write(rig.log("1", "stdout"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(rig.log("1", "stderr"), "oops").unwrap();
    let query = |tail| LogQuery { tail, ..LogQuery::default() };
    assert_eq!(read(&client, "1", &query(None)), "one\ntwo\nthree\n");
    for (tail, text) in [(0, ""), (1, "three\n"), (2, "two\nthree\n"), (9, "one\ntwo\nthree\n")] {
        assert_eq!(read(&client, "1", &query(Some(tail))), text, "{tail}");
    }
    let stderr = LogQuery { stream: LogStream::Stderr, ..LogQuery::default() };
    assert_eq!(read(&client, "1", &stderr), "oops");
    let since: Time = "2099-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(read(&client, "1", &LogQuery { since: Some(since), ..LogQuery::default() }), "");
    let many: String = (0..50_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(rig.log("1", "stdout"), &many).unwrap();
    assert_eq!(read(&client, "1", &query(None)), many);
    assert_eq!(
        read(&client, "1", &query(Some(40_000))),
        many[many.find("\n10000\n").unwrap() + 1..]
    );
}

#[test]
fn both_streams_are_read_in_their_order_and_gone_on_with() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    client.submit(&job("sleep"), None).unwrap();
    let both = LogQuery { stream: LogStream::Both, ..LogQuery::default() };
    std::fs::write(rig.log("1", "stderr"), "oops\nmore\n").unwrap();
    assert_eq!(read(&client, "1", &both), "oops\nmore\n", "there is one");
    std::fs::write(rig.log("1", "stdout"), "one\ntwo\n").unwrap();
    assert_eq!(read(&client, "1", &both), "one\ntwo\noops\nmore\n", "there is no order");
    std::fs::write(rig.log("1", "order"), "0 5\n4 5\n4 10\n").unwrap();
    assert_eq!(read(&client, "1", &both), "oops\none\nmore\ntwo\n");
    let tail = LogQuery { tail: Some(3), ..both.clone() };
    assert_eq!(read(&client, "1", &tail), "one\nmore\ntwo\n");
    let (_, _, body) =
        raw(&rig.socket(me()), &request("GET", "/api/v1/jobs/1/logs?stream=both&offset=9", ""));
    assert!(body.contains("more\n") && body.contains("two\n"), "{body}");
    assert!(!body.contains("one") && !body.contains("oops"), "{body}");
    let (status, ..) =
        raw(&rig.socket(me()), &request("GET", "/api/v1/jobs/1/logs?stream=all", ""));
    assert_eq!(status, 400);
}

#[test]
fn a_log_is_followed_to_its_end() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    client.submit(&job("sleep"), None).unwrap();
    let mut logs = client.logs("1", &LogQuery { follow: true, ..LogQuery::default() }).unwrap();
    let mut file = std::fs::File::create(rig.log("1", "stdout")).unwrap();
    file.write_all(b"first\n").unwrap();
    let mut buffer = [0; 6];
    logs.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"first\n");
    file.write_all(b"last\n").unwrap();
    client.cancel(&["1".to_owned()]).unwrap();
    let mut rest = String::new();
    logs.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "last\n");
}

#[test]
fn environments_of_ended_jobs_are_removed_by_a_server_that_runs() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    for name in ["ended", "runs"] {
        let environment = [("MARK".to_owned(), name.to_owned())].into();
        client.submit(&JobCreate { environment, ..job(name) }, None).unwrap();
    }
    rig.until("both run", || {
        ["1", "2"].iter().all(|id| client.job(id).unwrap().state == JobState::Running)
    });
    assert_eq!(rig.remove_environments(Duration::from_hours(1)), 0);
    assert_eq!(client.job("1").unwrap().run.can_retry, None);
    client.cancel(&["1".to_owned()]).unwrap();
    rig.until("it has ended", || client.job("1").unwrap().state.is_end());
    assert_eq!(rig.remove_environments(Duration::from_hours(1)), 0, "it was used just now");
    assert_eq!(client.job("1").unwrap().run.can_retry, Some(true));
    // Files of the file system's next tick may look as new as the moment of the look.
    let mut n_removed = 0;
    rig.until("its environment is removed", || {
        n_removed += rig.remove_environments(Duration::ZERO);
        n_removed > 0
    });
    assert_eq!(n_removed, 1);
    let job = client.job("1").unwrap();
    assert_eq!((job.run.can_retry, job.run.retry_until), (Some(false), None));
    let refused = client.retry("1").unwrap_err();
    let problem = refused.problem();
    assert_eq!((problem.status, problem.code.as_str()), (409, "GP0711"));
    assert_eq!(rig.remove_environments(Duration::ZERO), 0, "a job has it");
}

#[test]
fn links_and_pipes_in_place_of_a_log_are_not_read() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    client.submit(&job("sleep"), None).unwrap();
    let secret = rig.folder.path().join("secret");
    std::fs::write(&secret, "hush").unwrap();
    symlink(&secret, rig.log("1", "stdout")).unwrap();
    assert!(client.logs("1", &LogQuery::default()).is_err());
    let pipe = rig.log("1", "stderr");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let stderr = LogQuery { stream: LogStream::Stderr, ..LogQuery::default() };
    assert!(client.logs("1", &stderr).is_err());
}

#[test]
fn output_of_jobs_that_ended_long_ago_is_removed_and_that_is_said() {
    let mut rig = Rig::new();
    let client = rig.client(me());
    for _ in 0..2 {
        client.submit(&job("sleep"), None).unwrap();
    }
    for id in ["1", "2"] {
        rig.until("it runs", || client.job(id).unwrap().state == JobState::Running);
        std::fs::write(rig.log(id, "stdout"), "done\n").unwrap();
    }
    client.cancel(&["1".to_owned()]).unwrap();
    rig.until("it has ended", || client.job("1").unwrap().state.is_end());
    let until = client.job("1").unwrap().run.output_kept_until;
    assert!(until.is_some() && client.job("2").unwrap().run.output_kept_until.is_none());
    // Files of the file system's next tick may look as new as the moment of the look.
    let mut n_removed = 0;
    rig.until("its output is removed", || {
        n_removed += rig.remove_output();
        n_removed > 0
    });
    assert_eq!(n_removed, 1);
    let Err(gone) = client.logs("1", &LogQuery::default()) else { panic!("it is removed") };
    let said = format!("{:?}", gone.problem());
    assert!(said.contains("was removed") && said.contains("it was kept until"), "{said}");
    assert_eq!(read(&client, "2", &LogQuery::default()), "done\n", "it runs");
}
