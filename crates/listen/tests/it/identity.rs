//! The user of the connection decides what is shown and done, never the text of the request.

use gpool_client::{Error, JobsQuery, LogQuery};
use gpool_model::JobVerb;
use gpool_model::SignalTo;
use gpool_wire::{JobCreate, JobPatch};

use crate::rig::{ANA, BO, OWNER, Rig};

fn secret_job() -> JobCreate {
    JobCreate {
        command: vec!["sleep".to_owned(), "--token=hush-1".to_owned()],
        name: Some("hush-2".to_owned()),
        note: Some("hush-3".to_owned()),
        directory: Some("/hush-4".to_owned()),
        environment: [("HUSH".to_owned(), "hush-5".to_owned())].into(),
        stdin: Some("/hush-6".to_owned()),
        ..JobCreate::default()
    }
}

fn code(error: Error) -> String {
    match error {
        Error::Problem(problem) => problem.code,
        other => panic!("{other}"),
    }
}

#[test]
fn what_belongs_to_others_is_not_shown() {
    let mut rig = Rig::new();
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    let id = ana.submit(&secret_job(), None).unwrap().id;
    rig.until("it runs", || ana.job(&id).unwrap().state.as_str() == "running");
    let all = JobsQuery { state: Some("all".to_owned()), ..JobsQuery::default() };
    let seen_by = |client: &gpool_client::Client| {
        let job = serde_json::to_string(&client.job(&id).unwrap()).unwrap();
        let list = serde_json::to_string(&client.jobs(&all).unwrap()).unwrap();
        let why = serde_json::to_string(&client.why(&id).unwrap()).unwrap();
        let gpus = serde_json::to_string(&client.gpus().unwrap()).unwrap();
        format!("{job}{list}{why}{gpus}")
    };
    assert!(!seen_by(&bo).contains("hush"));
    assert!(bo.job(&id).unwrap().private);
    assert_eq!(bo.job(&id).unwrap().user, "ana");
    for client in [&ana, &olga] {
        let seen = seen_by(client);
        for part in ["hush-1", "hush-2", "hush-3", "hush-4", "hush-6"] {
            assert!(seen.contains(part), "{part}");
        }
        assert!(!seen.contains("hush-5"), "the environment is shown to nobody");
    }
    // Nor can it be guessed by asking for it.
    let by_name = JobsQuery { name: Some("hush-2".to_owned()), ..all.clone() };
    assert_eq!(bo.jobs(&by_name).unwrap().items.len(), 0);
    assert_eq!(ana.jobs(&by_name).unwrap().items.len(), 1);
    ana.cancel(std::slice::from_ref(&id)).unwrap();
    rig.until("it has ended", || ana.job(&id).unwrap().run.ended_at.is_some());
    assert_eq!(bo.jobs(&by_name).unwrap().items.len(), 0, "nor in the archive");
    assert_eq!(ana.jobs(&by_name).unwrap().items.len(), 1);
    assert!(!seen_by(&bo).contains("hush"));
}

#[test]
fn what_belongs_to_others_is_not_touched() {
    let mut rig = Rig::new();
    let (ana, bo) = (rig.client(ANA), rig.client(BO));
    let id = ana.submit(&secret_job(), None).unwrap().id;
    let ids = std::slice::from_ref(&id);
    let note = JobPatch::from(JobCreate { note: Some("x".to_owned()), ..JobCreate::default() });
    assert_eq!(code(bo.cancel(ids).unwrap_err()), "GP0501");
    assert_eq!(code(bo.act(JobVerb::Hold, ids).unwrap_err()), "GP0501");
    assert_eq!(
        code(bo.act(JobVerb::Signal { signal: 9, to: SignalTo::Job }, ids).unwrap_err()),
        "GP0501"
    );
    assert_eq!(code(bo.edit(&id, &note, None).unwrap_err()), "GP0501");
    assert_eq!(code(bo.logs(&id, &LogQuery::default()).map(drop).unwrap_err()), "GP0501");
    assert_eq!(code(bo.shutdown(true).unwrap_err()), "GP0501");
    assert_eq!(ana.job(&id).unwrap().request.note.as_deref(), Some("hush-3"));
}

#[test]
fn a_key_belongs_to_its_user() {
    let mut rig = Rig::new();
    let (ana, bo) = (rig.client(ANA), rig.client(BO));
    let job = JobCreate { command: vec!["true".to_owned()], ..JobCreate::default() };
    let first = ana.submit(&job, Some("k")).unwrap().id;
    assert_eq!(ana.submit(&job, Some("k")).unwrap().id, first);
    assert_ne!(bo.submit(&job, Some("k")).unwrap().id, first);
    let other = JobCreate { name: Some("other".to_owned()), ..job };
    assert_eq!(code(ana.submit(&other, Some("k")).unwrap_err()), "GP0704");
}

#[test]
fn nobody_asks_for_a_priority_above_the_users() {
    let mut rig = Rig::new();
    let ana = rig.client(ANA);
    let job =
        JobCreate { command: vec!["true".to_owned()], priority: Some(1), ..JobCreate::default() };
    assert_eq!(code(ana.submit(&job, None).unwrap_err()), "GP0502");
}
