//! The JSON of each kind of message, stored in `tests/golden`: a change of the format shows up in
//! review. `GPOOL_BLESS=1 cargo test -p gpool-protocol` writes the files.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use gpool_model::agent::{
    LiveUsage, LoanIs, LoanReport, MoveIs, MoveReason, MoveReport, Order, OutputReport, Report,
    Stamp, TaskEnd, TaskIs, TaskReport, Terms,
};
use gpool_model::attach::{Exec, ForwardTo, NotOpened, Opening};
use gpool_model::device::{Device, DeviceSample, Lending, Loan};
use gpool_model::id::{Generation, Incarnation, RequestId, Round, TaskId, Term};
use gpool_model::job::end::{EndCause, ExitStatus, OutputCut, Usage};
use gpool_model::launch::WindowSize;
use gpool_model::mig_layout::{MigChange, MigDevice, MigError, MigReport};
use gpool_model::output::OutputStream;
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_model::{
    DeviceUuid, JobId, LeaseTerms, NodeName, Rare, Resources, SignalTo, Slot, SlotPart,
};
use gpool_protocol::recent::{DevicePoint, TaskMetric};
use gpool_protocol::{
    AgentProcess, Answer, FileAnswer, FileQuestion, Hello, Launched, LaunchedTask, OutputPart,
    OutputRequest, OutputStart, Question, QuestionId, Telemetry, ToAgent, ToServer, VERSION,
    understands,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::order::task_order;

const TERM: Term = Term(3);
const GENERATION: Generation = Generation(2);
const AT: Timestamp = Timestamp::new(1_700_000_000_000);
const GIB: Bytes = Bytes::from_gib(1);

pub fn task() -> TaskId {
    "7#1/0".parse().unwrap()
}

pub fn gpu() -> DeviceUuid {
    DeviceUuid::new("GPU-1")
}

fn to_agent() -> Vec<ToAgent> {
    let (term, task, generation) = (TERM, task(), GENERATION);
    let window = WindowSize { rows: 24, columns: 80 };
    let exec = Exec {
        command: vec!["bash".to_owned()],
        pty: Some(window),
        directory: None,
        environment: vec![("A".to_owned(), "1".to_owned())],
    };
    let signal = |to| Order::Signal { term, task, signal: 10, to, request: RequestId(5) };
    let orders = vec![
        Order::Sync { term, round: Round(1), closed: [gpu()].into() },
        Order::Run(Box::new(task_order())),
        Order::Stop { term, task, generation, grace: Millis::from_secs(30), signal: Some(10) },
        Order::Change { term, task, generation, terms: Terms { limit: None, parts: vec![] } },
        Order::Pause { term, task, generation, runs_on: true },
        Order::Resume { term, task, generation, devices: vec![gpu()] },
        signal(SignalTo::Job),
        signal(SignalTo::Program),
        signal(SignalTo::Steps),
        Order::Acknowledge { term, task, generation },
    ];
    let stream = |opening| Question::Stream { task, opening };
    let change = |change| Question::MigInstances { change };
    let questions = vec![
        stream(Opening::Attach { window: Some(window) }),
        stream(Opening::Exec(exec)),
        stream(Opening::Forward { to: ForwardTo::Port(8888) }),
        stream(Opening::Forward { to: ForwardTo::Socket("/run/a.sock".to_owned()) }),
        change(None),
        change(Some(MigChange::Create { device: gpu(), profile: "1g.10gb".to_owned() })),
        change(Some(MigChange::Destroy { instance: DeviceUuid::new("MIG-1") })),
        Question::DevicePoints { device: gpu(), since: AT },
        Question::Metrics { job: Some(JobId::single(7)), since: AT },
        Question::Metrics { job: None, since: AT },
        Question::Launched { jobs: [JobId::single(7)].into() },
    ];
    let request = |start| OutputRequest {
        task,
        streams: OutputStream::BOTH.to_vec(),
        owner: Some(1000),
        start,
        since: Some(AT),
    };
    let files = vec![
        FileQuestion::Output(request(OutputStart::Byte(5))),
        FileQuestion::Output(request(OutputStart::LastLines(10))),
        FileQuestion::OutputPaths { task },
        FileQuestion::OldJobs { before: AT },
        FileQuestion::RemoveJobs { jobs: vec![JobId::single(7)] },
    ];
    let questions = questions.into_iter().chain(files.into_iter().map(Question::Files));
    let to = Some(Incarnation::new("boot-1-2"));
    let unleased = |order| ToAgent::Order { to: to.clone(), beat: None, order };
    let orders: Vec<ToAgent> = orders.into_iter().map(unleased).collect();
    let orders = orders.into_iter();
    let questions = (1..).map(QuestionId).zip(questions);
    let questions = questions.map(|(id, question)| ToAgent::Question { id, question });
    let beat = Some(5_000_000);
    let order = Order::Acknowledge { term: TERM, task, generation: GENERATION };
    let leased = [
        ToAgent::Welcome { version: VERSION, lease: None },
        ToAgent::Welcome { version: VERSION, lease: Some(LeaseTerms::USUAL) },
        ToAgent::Refused { version: VERSION, release: "0.3.1".to_owned() },
        ToAgent::Renewed { beat: 5_000_000 },
        ToAgent::Order { to, beat, order },
    ];
    orders.chain(questions).chain(leased).collect()
}

fn reports() -> Vec<Report> {
    let (task, generation) = (task(), GENERATION);
    let why = || "a reason".to_owned();
    let stamp = Stamp { incarnation: Incarnation::new("boot-1-2"), sequence: 4 };
    let inventory = Report::Inventory {
        stamp: stamp.clone(),
        capacity: Resources::none(),
        devices: vec![Device::new(0, gpu(), "NVIDIA H100".to_owned(), GIB)],
        boot_id: "boot".to_owned(),
        facts: Box::default(),
    };
    let end = TaskEnd {
        started_at: Some(AT),
        ended_at: AT,
        exit: Some(ExitStatus::Code(1)),
        cause: Some(EndCause::LaunchFailed { why: why() }),
        stopped: false,
        usage: Usage::default(),
        steps: Rare::default(),
    };
    let (pid, started_at) = (100, AT);
    let states = vec![
        TaskIs::Launching,
        TaskIs::Running { pid, started_at },
        TaskIs::Paused { pid, started_at },
        TaskIs::NotPaused { pid, started_at, why: why() },
        TaskIs::NotMoved { pid, started_at, why: why(), devices: vec![gpu()] },
        TaskIs::Ended(end),
        TaskIs::Refused { devices: vec![gpu()] },
        TaskIs::Over,
    ];
    let of_task = |is| TaskReport { task, generation, is };
    let tasks = vec![of_task(TaskIs::Launching)];
    let tasks = Report::Tasks { stamp, term: TERM, round: Round(1), tasks };
    let loans = vec![
        LoanIs::Called { bytes: GIB, beneficiary: task },
        LoanIs::Paused,
        LoanIs::NotPaused { why: why() },
        LoanIs::Returned,
        LoanIs::Stopped,
        LoanIs::Late { bytes: GIB, waited: Millis::from_secs(1) },
        LoanIs::NotLimited { why: why() },
    ];
    let loan = |is| Report::Loan(LoanReport { task, device: gpu(), is });
    let slot = || Slot { index: 0, device: gpu(), part: SlotPart::Whole };
    let moved = |reason, is| {
        let (from, to, why, took) = (vec![slot()], vec![slot()], None, None);
        Report::Move(MoveReport { task, from, to, reason, is, why, took })
    };
    let output = |cut| Report::Output(OutputReport { task, cut, is_stopped: true });
    let rest = vec![
        moved(Some(MoveReason::Room { beneficiary: task }), MoveIs::Done),
        moved(Some(MoveReason::Closed), MoveIs::NotLeft),
        moved(Some(MoveReason::Loan { beneficiary: task }), MoveIs::NotReached),
        output(OutputCut::Limit { limit: GIB }),
        output(OutputCut::DiskFull),
    ];
    let states = states.into_iter().map(|is| Report::Task(of_task(is)));
    let all = [inventory, tasks].into_iter().chain(states);
    all.chain(loans.into_iter().map(loan)).chain(rest).collect()
}

/// Answers about the files of jobs.
fn of_files() -> Vec<Answer> {
    // The bytes are the body of the message, so they are not in its JSON.
    let bytes = OutputPart::Bytes { offset: 5, bytes: Vec::new() };
    let parts = vec![
        bytes,
        OutputPart::TooOld,
        OutputPart::Unwritten,
        OutputPart::Missing,
        OutputPart::NotRegular,
        OutputPart::Unreadable { why: "a reason".to_owned() },
    ];
    let rest = vec![
        FileAnswer::OutputPaths { stdout: Some("/s/jobs/7/1/stdout".to_owned()), stderr: None },
        FileAnswer::OldJobs(vec![JobId::single(7)]),
        FileAnswer::RemovedJobs(1),
    ];
    let path = "/s/tasks/7#1-0".to_owned();
    let launched = Launched {
        newest: Some((JobId::single(7).number, path.clone())),
        tasks: vec![LaunchedTask { task: task(), generation: GENERATION, path }],
        running: [JobId::single(7)].into(),
    };
    let files = parts.into_iter().map(FileAnswer::Output).chain(rest).map(Answer::Files);
    files.chain([Answer::Launched(launched)]).collect()
}

fn to_server() -> Vec<ToServer> {
    let loan = Loan { task: task(), bytes: GIB, since: AT, keep: None };
    let lending = Lending { loans: vec![loan], n_late: 1, compute_percent: BTreeMap::new() };
    let telemetry = Telemetry {
        samples: [(gpu(), DeviceSample { memory_used: Some(GIB), ..Default::default() })].into(),
        lending: Some([(gpu(), lending)].into()),
        usage: vec![(task(), LiveUsage { cpu: Some(Millis::new(5)), ..LiveUsage::default() })],
        beat: Some(5_000_000),
        agent: Some(AgentProcess { clock: AT, cpu: Millis::from_secs(2), memory: GIB }),
    };
    let not_opened = vec![
        NotOpened::NoTerminal,
        NotOpened::NotRunning,
        NotOpened::NothingListens { ports: vec![80] },
        NotOpened::TooMany { most: 64 },
        NotOpened::Failed { why: "a reason".to_owned() },
    ];
    let device = MigDevice { uuid: gpu(), index: 0, sizes: Vec::new() };
    let refused = vec![
        MigError::NoSuchDevice,
        MigError::NoSuchProfile { profile: "9g".to_owned(), known: vec!["1g.10gb".to_owned()] },
        MigError::NoRoom { profile: "1g.10gb".to_owned(), free: Vec::new() },
        MigError::IsOff,
        MigError::HasTask { task: task() },
        MigError::HasProcess { pid: 100, name: "a".to_owned() },
        MigError::Driver { why: "a reason".to_owned() },
    ];
    let point = DevicePoint { at: AT, utilization: Some(0.5), memory_used: None, power: None };
    let metric = TaskMetric { task: task(), name: "loss".to_owned(), points: vec![(AT, 0.25)] };
    let rest = [
        Answer::MigInstances(MigReport { devices: vec![device], created: Some(gpu()) }),
        Answer::DevicePoints(vec![point]),
        Answer::Metrics(vec![metric]),
    ];
    let answers = not_opened.into_iter().map(Answer::NotOpened);
    let answers = answers.chain(refused.into_iter().map(Answer::MigRefused)).chain(rest);
    let answers = answers.chain(of_files());
    let hello = Hello {
        version: gpool_protocol::VERSION,
        release: "0.3.1".to_owned(),
        node: NodeName::new("lab1"),
        incarnation: Incarnation::new("boot-1-2"),
    };
    let all = [ToServer::Hello(hello), ToServer::Telemetry(telemetry)].into_iter();
    let all = all.chain(reports().into_iter().map(|it| ToServer::Report(Box::new(it))));
    let answers = (1..).map(QuestionId).zip(answers);
    all.chain(answers.map(|(id, answer)| ToServer::Answer { id, answer })).collect()
}

/// Compares messages with the lines of a file, which they also have to read.
fn check<M: Serialize + DeserializeOwned + PartialEq + Debug>(file: &str, messages: &[M]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let written: String =
        messages.iter().map(|it| serde_json::to_string(it).unwrap() + "\n").collect();
    if std::env::var_os("GPOOL_BLESS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == written, "{file} differs; GPOOL_BLESS=1 writes it:\n{written}");
    let read: Vec<M> = stored.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, messages);
}

#[test]
fn messages_are_those_of_the_golden_files() {
    check("to_agent.jsonl", &to_agent());
    check("to_server.jsonl", &to_server());
}

/// Reads each message of the release before and writes it again: nothing in it is lost or changes,
/// so this release works with a peer of that one.
fn check_before<M: Serialize + DeserializeOwned>(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/before").join(file);
    let stored = std::fs::read_to_string(&path).unwrap();
    assert!(stored.lines().count() > 20, "{file} is complete");
    for line in stored.lines() {
        let message: M =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let before: Value = serde_json::from_str(line).unwrap();
        let now = serde_json::to_value(&message).unwrap();
        assert!(contains(&now, &before), "{line} is now {now}");
    }
}

/// Whether a value has everything that another one has; it may have more fields.
fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(value), Value::Object(part)) => {
            part.iter().all(|(key, part)| value.get(key).is_some_and(|it| contains(it, part)))
        }
        (Value::Array(value), Value::Array(part)) => {
            value.len() == part.len() && value.iter().zip(part).all(|(it, part)| contains(it, part))
        }
        (value, part) => value == part,
    }
}

#[test]
fn messages_of_the_release_before_are_understood() {
    check_before::<ToAgent>("to_agent.jsonl");
    check_before::<ToServer>("to_server.jsonl");
}

#[test]
fn peers_may_differ_by_one_version() {
    let versions = [VERSION - 1, VERSION, VERSION + 1];
    assert!(versions.into_iter().all(understands));
    assert!(![VERSION + 2, u32::MAX].into_iter().any(understands));
}

/// The variants of the enumeration at the place of `"?"`, by the error of an unknown one.
fn variants<M: DeserializeOwned>(template: &str) -> Vec<String> {
    let error = serde_json::from_str::<M>(template).err().expect("no variant is called ?");
    let error = error.to_string();
    let (_, expected) = error.split_once("expected ").expect("the error lists the variants");
    assert!(error.starts_with("unknown variant `?`"), "{error}");
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Checks that messages contain each variant at the places of `"?"` in some templates, which have
/// `'` in place of `"`.
fn contain_variants<M: Serialize + DeserializeOwned>(messages: &[M], templates: &[String]) {
    let all: String = messages.iter().map(|it| serde_json::to_string(it).unwrap()).collect();
    for template in templates {
        for variant in variants::<M>(&template.replace('\'', "\"")) {
            assert!(all.contains(&format!("\"{variant}\"")), "{variant} of {template}");
        }
    }
}

#[test]
fn the_golden_files_contain_every_variant() {
    let order = |it: &str| format!("{{'order':{{'order':{it}}}}}");
    let question = |it: &str| format!("{{'question':{{'id':1,'question':{it}}}}}");
    let templates = [
        "{'?':0}".to_owned(),
        order("{'?':0}"),
        order("{'signal':{'term':1,'task':'7#1/0','signal':1,'to':'?'}}"),
        question("{'?':0}"),
        question("{'stream':{'task':'7#1/0','opening':{'?':0}}}"),
        question("{'stream':{'task':'7#1/0','opening':{'forward':{'to':{'?':0}}}}}"),
        question("{'mig_instances':{'change':{'?':0}}}"),
        question("{'files':{'?':0}}"),
        question("{'files':{'output':{'task':'7#1/0','streams':[],'owner':0,'start':{'?':0}}}}"),
    ];
    contain_variants(&to_agent(), &templates);
    let report = |it: &str| format!("{{'report':{it}}}");
    let answer = |it: &str| format!("{{'answer':{{'id':1,'answer':{it}}}}}");
    let templates = [
        "{'?':0}".to_owned(),
        report("{'?':0}"),
        report("{'task':{'task':'7#1/0','generation':1,'is':'?'}}"),
        report("{'loan':{'task':'7#1/0','device':'GPU-1','is':'?'}}"),
        report("{'move':{'task':'7#1/0','from':[],'to':[],'is':'?'}}"),
        report("{'move':{'task':'7#1/0','from':[],'to':[],'reason':'?'}}"),
        report("{'output':{'task':'7#1/0','cut':'?'}}"),
        answer("{'?':0}"),
        answer("{'not_opened':'?'}"),
        answer("{'mig_refused':'?'}"),
        answer("{'files':{'?':0}}"),
        answer("{'files':{'output':'?'}}"),
    ];
    contain_variants(&to_server(), &templates);
}

#[test]
fn unknown_fields_are_ignored_and_unknown_variants_are_named() {
    let newer = r#"{"hello":{"version":1,"node":"lab1","incarnation":"b","more":[1]}}"#;
    assert!(matches!(serde_json::from_str(newer), Ok(ToServer::Hello(_))));
    let error = serde_json::from_str::<ToAgent>(r#"{"teleport":{}}"#).unwrap_err().to_string();
    assert!(error.contains("unknown variant `teleport`"), "{error}");
}
