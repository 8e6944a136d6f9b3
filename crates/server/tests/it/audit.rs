//! The audit log: changes with their user, origin, and the fields before and after.

use gpool_client::{AuditQuery, Client};
use gpool_model::Timestamp;
use gpool_server::http::testing::{AUDIT_FOLDER, Audit, FILE_MAX, FILES_MAX, Kind, Wanted};
use gpool_wire::{AuditEntry, JobCreate, JobPatch, PolicyPatch, Scope, Time};
use serde_json::json;

use crate::network::Network;
use crate::rig::{ANA, BO, OWNER, Rig};

fn entries(client: &Client, object: Option<&str>) -> Vec<AuditEntry> {
    let query = AuditQuery { object: object.map(str::to_owned), ..AuditQuery::default() };
    client.audit(&query).unwrap().items
}

fn job(environment: &str) -> JobCreate {
    JobCreate {
        command: vec!["sleep".to_owned()],
        environment: [("SECRET".to_owned(), environment.to_owned())].into(),
        ..JobCreate::default()
    }
}

#[test]
fn each_change_has_user_origin_before_and_after() {
    let mut net = Network::new();
    let (id, secret) = net.token(OWNER, Scope::Admin, None);
    let (remote, ana) = (net.client(&secret), net.rig.client(ANA));
    let held = JobCreate { hold: true, ..job("canary-env") };
    let made = ana.submit(&held, None).unwrap();
    let patch: JobPatch = serde_json::from_value(json!({"priority": -5})).unwrap();
    ana.edit(&made.id, &patch, None).unwrap();
    ana.cancel(std::slice::from_ref(&made.id)).unwrap();
    let set = [("escalate_after".to_owned(), "2h".to_owned())].into();
    remote.change_policy(&PolicyPatch { set, ..PolicyPatch::default() }).unwrap();

    let of_job = entries(&remote, Some(&format!("jobs/{}", made.id)));
    let actions: Vec<&str> = of_job.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["POST /jobs/cancel", "PATCH /jobs/{id}", "POST /jobs"]);
    assert!(of_job.iter().all(|entry| entry.user == "ana" && entry.origin == "socket"));
    let edit = &of_job[1];
    assert_eq!(edit.before.as_ref().unwrap()["priority"], json!(0));
    assert_eq!(edit.after.as_ref().unwrap()["priority"], json!(-5));
    assert_eq!(edit.after.as_ref().unwrap().get("name"), None, "only what differs");

    let policy = &entries(&remote, Some("policies"))[0];
    assert_eq!((policy.user.as_str(), policy.origin.as_str()), ("olga", "127.0.0.1"));
    assert_eq!(policy.token.as_ref(), Some(&id));
    assert_eq!(policy.before.as_ref().unwrap()["settings"]["escalate_after"], json!("24h"));
    assert_eq!(policy.after.as_ref().unwrap()["settings"]["escalate_after"], json!("2h"));

    let token = entries(&remote, Some(&format!("tokens/{id}")));
    assert_eq!(token.len(), 1);
    let all = serde_json::to_string(&entries(&remote, None)).unwrap();
    assert!(!all.contains(&secret) && !all.contains("canary-env"), "{all}");
}

#[test]
fn refused_and_simulated_changes_are_not_in_it_and_users_see_their_own() {
    let mut rig = Rig::new();
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    let made = ana.submit(&job("x"), None).unwrap();
    bo.cancel(std::slice::from_ref(&made.id)).unwrap_err();
    ana.forecast(&job("x")).unwrap();
    let patch = PolicyPatch {
        set: [("escalate_after".to_owned(), "2h".to_owned())].into(),
        dry_run: true,
        ..PolicyPatch::default()
    };
    olga.change_policy(&patch).unwrap();
    assert_eq!(entries(&olga, None).len(), 1);
    assert_eq!(entries(&ana, None).len(), 1);
    assert_eq!(entries(&bo, None), []);
    let of_ana = AuditQuery { user: Some("ana".to_owned()), ..AuditQuery::default() };
    assert_eq!(bo.audit(&of_ana).unwrap().items, []);
    let soon = Time(Timestamp::new(u64::MAX / 1_000_000));
    let later = AuditQuery { since: Some(soon), ..AuditQuery::default() };
    assert_eq!(olga.audit(&later).unwrap().items, []);
}

fn entry(object: &str) -> AuditEntry {
    serde_json::from_value(json!({
        "id": 0, "at": "2026-11-20T15:30:00.000Z", "user": "ana", "origin": "socket",
        "action": "POST /jobs", "objects": [object], "after": {"text": "x".repeat(60_000)},
    }))
    .unwrap()
}

#[test]
fn the_log_is_bounded_and_jobs_do_not_push_out_other_changes() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path()).unwrap();
    audit.add(Kind::Cluster, entry("policies")).unwrap();
    let n_jobs = FILE_MAX / 60_000 * (FILES_MAX as u64 + 2);
    for n in 0..n_jobs {
        audit.add(Kind::Jobs, entry(&format!("jobs/{n}"))).unwrap();
    }
    let files = std::fs::read_dir(folder.path().join(AUDIT_FOLDER)).unwrap();
    let sizes: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), FILES_MAX + 1);
    assert!(sizes.iter().all(|size| *size <= FILE_MAX), "{sizes:?}");
    let of = |object: &str| {
        let wanted = Wanted { object: Some(object.to_owned()), ..Wanted::default() };
        audit.read(&wanted, 10).unwrap().len()
    };
    assert_eq!((of("policies"), of("jobs/0"), of(&format!("jobs/{}", n_jobs - 1))), (1, 0, 1));
}

#[test]
fn a_line_that_a_crash_cut_short_is_skipped_and_numbers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    Audit::open(folder.path()).unwrap().add(Kind::Cluster, entry("policies")).unwrap();
    let path = folder.path().join(AUDIT_FOLDER).join("cluster.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"id\": 2, \"at\"");
    std::fs::write(&path, text).unwrap();
    let audit = Audit::open(folder.path()).unwrap();
    audit.add(Kind::Cluster, entry("nodes")).unwrap();
    let ids: Vec<u64> =
        audit.read(&Wanted::default(), 10).unwrap().iter().map(|it| it.id).collect();
    assert_eq!(ids, [2, 1]);
}
