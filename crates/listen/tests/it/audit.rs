//! The audit log: changes with their user, origin, and the fields before and after.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

use gpool_client::{AuditQuery, Client, JobsQuery};
use gpool_listen::testing::{
    AUDIT_FOLDER, Audit, AuditFilter, AuditKind, Broken, ENTRY_MAX, FILE_MAX, FILES_MAX, verify,
};
use gpool_model::Timestamp;
use gpool_server::Limits;
use gpool_wire::{AuditEntry, JobCreate, JobPatch, PolicyPatch, Scope, Time};
use serde_json::json;

use crate::network::Network;
use crate::rig::{ANA, BO, OWNER, Rig, raw, request};

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
    assert_eq!(edit.before.as_ref().unwrap()["request"]["priority"], json!(0));
    assert_eq!(edit.after.as_ref().unwrap()["request"]["priority"], json!(-5));
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
fn simulated_changes_are_not_in_it_and_users_see_their_own() {
    let mut rig = Rig::new();
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    ana.submit(&job("x"), None).unwrap();
    ana.forecast(&job("x")).unwrap();
    let patch = PolicyPatch {
        set: [("escalate_after".to_owned(), "2h".to_owned())].into(),
        dry_run: true,
        ..PolicyPatch::default()
    };
    olga.change_policy(&patch).unwrap();
    let drain = json!({"targets": ["lab1:1"], "reason": "a fan", "dry_run": true});
    olga.drain(&serde_json::from_value(drain).unwrap()).unwrap();
    let project = json!({"name": "nlp", "gpus": 0, "dry_run": true});
    olga.create_project(&serde_json::from_value(project).unwrap()).unwrap();
    let window = json!({"name": "fan", "nobody": true, "nodes": ["lab1"], "for": "1h",
        "at_begin": "let_finish", "dry_run": true});
    olga.reserve(&serde_json::from_value(window).unwrap()).unwrap();
    olga.mig(&gpool_wire::MigRequest::default()).unwrap();
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
        "action": "POST /jobs", "objects": [object], "after": {"text": "x".repeat(7_000)},
    }))
    .unwrap()
}

#[test]
fn the_log_is_bounded_and_jobs_do_not_push_out_other_changes() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path(), None).unwrap();
    audit.add(AuditKind::Admin, entry("policies")).unwrap();
    let n_jobs = FILE_MAX / 7_000 * (FILES_MAX as u64 + 2);
    for n in 0..n_jobs {
        audit.add(AuditKind::Jobs, entry(&format!("jobs/{n}"))).unwrap();
    }
    let files = std::fs::read_dir(folder.path().join(AUDIT_FOLDER)).unwrap();
    let sizes: Vec<u64> = files.map(|file| file.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), FILES_MAX + AuditKind::ALL.len() - 1);
    assert_eq!(verify(folder.path()).unwrap().1, [], "the oldest files are gone");
    assert!(sizes.iter().all(|size| *size <= FILE_MAX), "{sizes:?}");
    let of = |object: &str| {
        let wanted = AuditFilter { object: Some(object.to_owned()), ..AuditFilter::default() };
        audit.read(&wanted, 10).unwrap().len()
    };
    assert_eq!((of("policies"), of("jobs/0"), of(&format!("jobs/{}", n_jobs - 1))), (1, 0, 1));
    // From a number on, the oldest first, also across files.
    let after = |after: u64| {
        let wanted = AuditFilter { after: Some(after), ..AuditFilter::default() };
        audit.read(&wanted, 3).unwrap().iter().map(|it| it.id).collect::<Vec<_>>()
    };
    assert_eq!(after(n_jobs - 2), [n_jobs - 1, n_jobs, n_jobs + 1]);
    let oldest = after(0);
    assert_eq!((oldest[0], oldest[2] - oldest[1]), (1, 1), "{oldest:?}");
    let before = AuditFilter { before: Some(n_jobs - 3000), ..AuditFilter::default() };
    let ids: Vec<u64> = audit.read(&before, 2).unwrap().iter().map(|it| it.id).collect();
    assert_eq!(ids, [n_jobs - 3001, n_jobs - 3002]);
}

#[test]
fn entries_that_are_written_together_go_on_in_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path(), None).unwrap();
    let n_entries = FILE_MAX / 7_000 + 2;
    let kind = |n| if n % 100 == 0 { AuditKind::Jobs } else { AuditKind::Admin };
    let all = (0..n_entries).map(|n| (kind(n), entry(&format!("nodes/{n}")))).collect();
    assert!(audit.add_all(all).iter().all(Result::is_ok));
    let path = |name: &str| folder.path().join(AUDIT_FOLDER).join(name);
    assert!(path("admin.1.jsonl").exists() && !path("jobs.1.jsonl").exists());
    assert_eq!(verify(folder.path()).unwrap(), (n_entries, vec![]));
    // Another program may take the open file away.
    std::fs::rename(path("jobs.jsonl"), path("taken")).unwrap();
    audit.add(AuditKind::Jobs, entry("jobs/7")).unwrap();
    let text = std::fs::read_to_string(path("jobs.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(text.contains("jobs/7"), "{text}");
}

#[test]
fn a_change_has_an_entry_although_its_client_has_gone() {
    let mut rig = Rig::new();
    let (socket, ana) = (rig.socket(ANA), rig.client(ANA));
    let (head, body) = ("POST /api/v1/jobs", r#"{"command": ["true"], "hold": true}"#);
    let head = format!(
        "{head} HTTP/1.1\r\nhost: gpool\r\ncontent-type: application/json\r\n\
         expect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    for _ in 0..20 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // The handler waits for the body.
        stream.read_exact(&mut [0; 25]).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
    }
    let n_jobs = || ana.jobs(&JobsQuery::default()).unwrap().items.len();
    rig.until("all are stored", || n_jobs() == 20);
    rig.until("all have an entry", || {
        let made = entries(&ana, None).into_iter().filter(|it| it.action == "POST /jobs");
        made.count() == 20
    });
}

#[test]
fn entries_go_to_the_systems_log_while_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let system = UnixDatagram::bind(&path).unwrap();
    system.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let audit = Audit::open(folder.path(), Some(&path)).unwrap();
    audit.add(AuditKind::Admin, entry("policies")).unwrap();
    let mut message = vec![0; 16 << 10];
    let n_bytes = system.recv(&mut message).unwrap();
    let message = String::from_utf8(message[..n_bytes].to_vec()).unwrap();
    let json = message.strip_prefix("<86>gpool: ").unwrap_or_else(|| panic!("{message}"));
    let sent: AuditEntry = serde_json::from_str(json).unwrap();
    assert_eq!((sent.id, sent.objects), (1, vec!["policies".to_owned()]));
    // Without it, the file has the entry.
    drop(system);
    audit.add(AuditKind::Admin, entry("nodes/a")).unwrap();
    assert_eq!(audit.read(&AuditFilter::default(), 10).unwrap().len(), 2);
}

#[test]
fn an_entry_has_a_size_and_a_changed_or_removed_line_shows() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path(), None).unwrap();
    let mut large = entry("users/ana");
    large.request = Some(json!({"notify": "y".repeat(1 << 20)}));
    assert!(audit.add(AuditKind::Admin, large).unwrap() <= ENTRY_MAX as u64 + 100);
    let kept = &audit.read(&AuditFilter::default(), 1).unwrap()[0];
    assert_eq!(kept.request, Some(json!({"left_out_bytes": (1 << 20) + 13})));
    drop(audit);
    // The hashes go on after a restart.
    let audit = Audit::open(folder.path(), None).unwrap();
    for n in 0..4 {
        audit.add(AuditKind::Admin, entry(&format!("nodes/{n}"))).unwrap();
    }
    assert_eq!(verify(folder.path()).unwrap(), (5, vec![]));
    let path = folder.path().join(AUDIT_FOLDER).join("admin.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let broken_by = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        change(&mut lines);
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let broken = verify(folder.path()).unwrap().1;
        let line = |it: &Broken| match it {
            Broken::Line { line, .. } => Some(*line),
            Broken::Missing { .. } => None,
        };
        (broken.iter().filter_map(line).collect::<Vec<_>>(), broken)
    };
    let lines_by = |change: &dyn Fn(&mut Vec<String>)| broken_by(change).0;
    assert_eq!(lines_by(&|lines| lines[2] = lines[2].replace("nodes/1", "nodes/9")), [3]);
    assert_eq!(lines_by(&|lines| lines[0] = lines[0].replace("ana", "bob")), [1]);
    assert_eq!(lines_by(&|lines| drop(lines.remove(0))), [1]);
    assert_eq!(lines_by(&|lines| drop(lines.remove(2))), [3]);
    assert_eq!(lines_by(&|lines| lines.swap(1, 2)), [2, 3, 4]);
    assert_eq!(broken_by(&|_| {}).1, []);
    let without_hash = |line: &mut String| {
        let at = line.find(",\"chain\"").unwrap();
        line.replace_range(at.., "}");
    };
    assert_eq!(lines_by(&|lines| lines.iter_mut().for_each(without_hash)), [1, 2, 3, 4, 5]);
    // The numbers of all files together have no gap: a later entry of another kind shows it.
    assert_eq!(broken_by(&|_| {}).1, []);
    audit.add(AuditKind::Jobs, entry("jobs/1")).unwrap();
    let missing = |from, to| vec![Broken::Missing { from, to }];
    assert_eq!(broken_by(&|lines| lines.truncate(3)).1, missing(4, 5));
    assert_eq!(broken_by(&|lines| lines.clear()).1, missing(1, 5));
}

#[test]
fn refusals_are_in_it_and_one_user_can_not_fill_it_with_them() {
    let mut rig = Rig::new();
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    let made = ana.submit(&job("x"), None).unwrap();
    let drain = json!({"targets": ["lab1:1"], "reason": "a fan"});
    let drain = serde_json::from_value(drain).unwrap();
    for _ in 0..100 {
        bo.cancel(std::slice::from_ref(&made.id)).unwrap_err();
    }
    let of_olga = olga.submit(&job("y"), None).unwrap();
    // A refused HEAD has the entry of its GET.
    let head = request("HEAD", &format!("/api/v1/jobs/{}/script", of_olga.id), "");
    assert_eq!(raw(&rig.socket(ANA), &head).0, 403);
    ana.drain(&drain).unwrap_err();
    bo.script(&made.id).unwrap_err();
    let by = |user: &str| {
        let query = AuditQuery { user: Some(user.to_owned()), ..AuditQuery::default() };
        let entries = olga.audit(&query).unwrap().items;
        entries.into_iter().filter(|it| it.refused.is_some()).collect::<Vec<_>>()
    };
    let n_of_bo = by("bo").len();
    assert!((20..=22).contains(&n_of_bo), "{n_of_bo}");
    let of_ana = by("ana");
    assert_eq!(of_ana[0].objects, ["nodes"], "none that she may not change is named");
    let of_ana: Vec<_> =
        of_ana.iter().map(|it| (it.action.as_str(), it.refused.as_deref().unwrap())).collect();
    let script = ("GET /jobs/{id}/script", "GP0501");
    assert_eq!(of_ana, [("POST /nodes/drain", "GP0501"), script]);
    assert_eq!(entries(&bo, None).len(), n_of_bo, "users see their own");
}

/// Edits of a long command are small entries, and a loop of changes ends.
#[test]
fn changes_are_stored_as_differences_and_within_a_limit_for_each_user() {
    let limits = Limits { changes: gpool_model::Bytes::from_mib(1), ..Limits::default() };
    let mut rig = Rig::with(limits);
    let (ana, bo, olga) = (rig.client(ANA), rig.client(BO), rig.client(OWNER));
    let held = JobCreate { hold: true, note: Some("n".repeat(900)), ..job("x") };
    let made = ana.submit(&held, None).unwrap();
    let patch = |text: &str| -> JobPatch { serde_json::from_value(json!({"note": text})).unwrap() };
    let note = format!("{}m{}", "n".repeat(500), "n".repeat(400));
    ana.edit(&made.id, &patch(&note), None).unwrap();
    let edit = &entries(&ana, Some(&format!("jobs/{}", made.id)))[0];
    let around = "n".repeat(20);
    let before = format!("…{around}{around}…");
    assert_eq!(edit.before.as_ref().unwrap()["request"]["note"], json!(before));
    assert_eq!(
        edit.after.as_ref().unwrap()["request"]["note"],
        json!(format!("…{around}m{around}…"))
    );

    let command = |n: u64| -> JobPatch {
        serde_json::from_value(
            json!({"command": ["sh", "-c", format!("# {n} {}", "z".repeat(120 << 10))]}),
        )
        .unwrap()
    };
    let refused = (0..400).find_map(|n| ana.edit(&made.id, &command(n), None).err());
    let refused = refused.expect("a limit").to_string();
    assert!(refused.contains("more than 1 MiB in an hour"), "{refused}");
    // Others may change, and what ends something is never refused.
    bo.submit(&job("y"), None).unwrap();
    let olgas = olga.submit(&held, None).unwrap();
    olga.edit(&olgas.id, &command(0), None).unwrap();
    ana.cancel(&[made.id]).unwrap();
}

/// The first entry of a kind may come when the disk is full.
#[test]
fn each_kind_of_entry_has_space_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let audit = Audit::open(folder.path(), None).unwrap();
    for file in std::fs::read_dir(folder.path().join(AUDIT_FOLDER)).unwrap() {
        let about = file.unwrap().metadata().unwrap();
        assert!(about.len() == 0 && about.blocks() * 512 >= 64 << 10, "{about:?}");
    }
    assert!(!audit.is_full());
}

#[test]
fn a_line_that_a_crash_cut_short_is_skipped_and_numbers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    Audit::open(folder.path(), None).unwrap().add(AuditKind::Cluster, entry("policies")).unwrap();
    let path = folder.path().join(AUDIT_FOLDER).join("cluster.jsonl");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("{\"id\": 2, \"at\"");
    std::fs::write(&path, text).unwrap();
    let audit = Audit::open(folder.path(), None).unwrap();
    audit.add(AuditKind::Cluster, entry("nodes")).unwrap();
    let ids: Vec<u64> =
        audit.read(&AuditFilter::default(), 10).unwrap().iter().map(|it| it.id).collect();
    assert_eq!(ids, [2, 1]);
}

#[test]
fn every_change_is_found_by_the_names_that_users_see() {
    fn read<T: serde::de::DeserializeOwned>(request: serde_json::Value) -> T {
        serde_json::from_value(request).unwrap()
    }
    let mut rig = Rig::new();
    let client = rig.client(OWNER);
    client.drain(&read(json!({"targets": ["lab1:1"], "reason": "a fan"}))).unwrap();
    client.undrain(&read(json!({"targets": ["lab1:1"]}))).unwrap();
    client.label_nodes(&read(json!({"nodes": ["lab1"], "labels": ["ssd"]}))).unwrap();
    client.move_nodes(&read(json!({"nodes": ["lab1"], "pool": "batch"}))).unwrap();
    client.allow_gpus(&read(json!({"devices": ["0"]}))).unwrap();
    client.create_project(&read(json!({"name": "nlp", "gpus": 0}))).unwrap();
    client.apply_projects(&read(json!({"projects": {"vision": {"gpus": 0}}}))).unwrap();
    let reserve = json!({"name": "fan", "nobody": true, "nodes": ["lab1"], "for": "1h",
        "at_begin": "let_finish"});
    client.reserve(&read(reserve)).unwrap();
    client.cancel_reservation("fan").unwrap();
    let found = |object: &str| {
        let entries = entries(&client, Some(object));
        entries.iter().rev().map(|entry| entry.action.clone()).collect::<Vec<_>>().join("; ")
    };
    let of_node = "POST /nodes/drain; POST /nodes/undrain; POST /nodes/label; POST /pools/move; \
                   POST /gpus/allow";
    let of_window = "POST /reservations; DELETE /reservations/{name}";
    for (object, expected) in [
        ("nodes/lab1", of_node),
        ("lab1", of_node),
        ("nodes/lab1:1", "POST /nodes/drain; POST /nodes/undrain"),
        ("pools/batch", "POST /pools/move"),
        ("projects/nlp", "POST /projects"),
        ("vision", "POST /projects/apply"),
        ("reservations/fan", of_window),
        ("nodes/lab", ""),
        ("lab1:0", ""),
    ] {
        assert_eq!(found(object), expected, "{object}");
    }
    let query = AuditQuery { object: Some("node/lab1".to_owned()), ..AuditQuery::default() };
    let refused = client.audit(&query).unwrap_err().to_string();
    assert!(refused.contains("\"node\" is not one of"), "{refused}");
}

#[test]
fn a_change_of_the_policy_shows_only_the_settings_that_differ() {
    let mut rig = Rig::new();
    let client = rig.client(OWNER);
    let set = [("escalate_after".to_owned(), "2h".to_owned())].into();
    client.change_policy(&PolicyPatch { set, ..PolicyPatch::default() }).unwrap();
    let entry = entries(&client, Some("policies")).remove(0);
    let before = json!({"escalate_after_s": 86400, "settings": {"escalate_after": "24h"}});
    let after = json!({"escalate_after_s": 7200, "settings": {"escalate_after": "2h"}});
    assert_eq!((entry.before, entry.after), (Some(before), Some(after)));
}

/// Otherwise a loop of repetitions, which no budget counts, would push the entries of others out.
#[test]
fn a_repeated_request_has_no_entry() {
    let mut rig = Rig::new();
    let (socket, ana) = (rig.socket(ANA), rig.client(ANA));
    let made = ana.submit(&JobCreate { hold: true, ..job("x") }, Some("one")).unwrap();
    ana.cancel(std::slice::from_ref(&made.id)).unwrap();
    let lines = r#"{"command": ["true"], "hold": true}"#;
    let retry = request("POST", &format!("/api/v1/jobs/{}/retry?hold=true", made.id), "");
    let retry = retry.replacen("\r\n", "\r\nidempotency-key: three\r\n", 1);
    for _ in 0..3 {
        ana.submit(&JobCreate { hold: true, ..job("x") }, Some("one")).unwrap();
        ana.submit_many(&mut lines.as_bytes(), Some("two")).unwrap();
        assert_eq!(raw(&socket, &retry).0, 200);
    }
    let entries = entries(&ana, None);
    let actions: Vec<&str> = entries.iter().map(|it| it.action.as_str()).collect();
    let first = ["POST /jobs/{id}/retry", "POST /jobs/bulk", "POST /jobs/cancel", "POST /jobs"];
    assert_eq!(actions, first);
}
