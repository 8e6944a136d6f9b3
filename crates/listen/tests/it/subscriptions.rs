//! Messages about projects and users: rights, budgets, and the content of digests.

use gpool_client::{Client, Error};
use gpool_history::{Batch, History, JobSample, JobSeries, Settings, UNMANAGED, Use};
use gpool_insight::usage::this_minute;
use gpool_model::budget::Payer;
use gpool_model::{Millis, ProjectName, Timestamp};
use gpool_server::digest::week_end;
use gpool_wire::{Digest, JobCreate, Notification, PolicyPatch, ProjectSettings};
use jiff::tz::TimeZone;
use serde_json::json;

use crate::cost::{use_of, write};
use crate::rig::{ANA, BO, OWNER, Rig};

/// No process listens there, so messages wait.
const HOOK: &str = "http://hooks.invalid:1/secret";
const WEEK: Millis = Millis::from_hours(24 * 7);

fn user(name: &str) -> Payer {
    Payer::User(name.into())
}

fn project(name: &str) -> Payer {
    Payer::Project(ProjectName::new(name))
}

fn rules(events: &str) -> Vec<String> {
    vec![format!("{events}@{HOOK}")]
}

fn set(client: &Client, settings: &[(&str, &str)]) {
    let text = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let set = settings.iter().map(text).collect();
    client.change_policy(&PolicyPatch { set, ..PolicyPatch::default() }).unwrap();
}

fn create(client: &Client, text: &str) {
    let settings: ProjectSettings = serde_json::from_str(text).unwrap();
    client.create_project(&settings).unwrap();
}

fn code(refused: Result<impl std::fmt::Debug, Error>) -> u16 {
    match refused {
        Err(Error::Problem(problem)) => problem.status,
        other => panic!("it is not refused: {other:?}"),
    }
}

fn waiting(client: &Client) -> Vec<(String, Option<String>, String)> {
    let of = |it: Notification| (it.kind, it.payer, it.user);
    client.notifications().unwrap().items.into_iter().map(of).collect()
}

fn at(text: &str) -> Timestamp {
    text.parse::<gpool_wire::Time>().unwrap().0
}

#[test]
fn a_week_ends_on_monday_morning_in_the_zone_of_the_server() {
    let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
    for (zone, now, end) in [
        (&TimeZone::UTC, "2026-11-26T03:00:00Z", "2026-11-23T08:00:00Z"),
        (&TimeZone::UTC, "2026-11-23T08:00:00Z", "2026-11-23T08:00:00Z"),
        (&TimeZone::UTC, "2026-11-23T07:59:59.999Z", "2026-11-16T08:00:00Z"),
        (&berlin, "2026-11-23T07:00:00Z", "2026-11-23T07:00:00Z"),
        (&berlin, "2026-11-23T06:59:59Z", "2026-11-16T07:00:00Z"),
        // Summer time ended on 25 October: that week has an hour more.
        (&berlin, "2026-10-26T06:59:59Z", "2026-10-19T06:00:00Z"),
        (&berlin, "2026-10-26T07:00:00Z", "2026-10-26T07:00:00Z"),
        // A Sunday in UTC, and a Monday there.
        (&TimeZone::posix("LINT-14").unwrap(), "2026-11-22T18:00:00Z", "2026-11-22T18:00:00Z"),
    ] {
        assert_eq!(week_end(at(now), zone), Some(at(end)), "{now}");
    }
}

#[test]
fn only_the_user_and_admins_read_and_set_addresses_and_see_digests() {
    let mut rig = Rig::new();
    let (admin, ana, bo) = (rig.client(OWNER), rig.client(ANA), rig.client(BO));
    create(&admin, r#"{"name": "lab", "admins": ["ana"]}"#);
    create(&admin, r#"{"name": "nlp", "parent": "lab", "admins": ["bo"]}"#);
    let digest = rules("digest");
    for (client, payer, status) in [
        (&ana, user("ana"), 200),
        (&bo, user("ana"), 403),
        (&admin, user("ana"), 200),
        (&ana, project("lab"), 200),
        (&ana, project("nlp"), 200),
        (&bo, project("nlp"), 200),
        (&bo, project("lab"), 403),
        (&bo, project("default"), 403),
        (&admin, project("default"), 200),
        (&admin, project("nowhere"), 404),
        (&bo, project("nowhere"), 404),
    ] {
        if status == 200 {
            let set = client.subscribe(&payer, &digest).unwrap();
            assert_eq!(set.notify, ["digest@http://hooks.invalid:1/…"], "{payer}");
            assert_eq!(client.subscription(&payer).unwrap(), set);
            assert_eq!(client.digest(&payer).unwrap().name, payer.name());
            continue;
        }
        assert_eq!(code(client.subscription(&payer)), status, "{payer}");
        assert_eq!(code(client.subscribe(&payer, &digest)), status, "{payer}");
        assert_eq!(code(client.digest(&payer)), status, "{payer}");
    }
    assert_eq!(admin.subscription(&project("nlp")).unwrap().set_by.as_deref(), Some("bo"));
    for bad in ["done@https://a/x", "digest", "digest@mailto:x", "digest@ftp://a/x"] {
        assert_eq!(code(ana.subscribe(&user("ana"), &[bad.to_owned()])), 400, "{bad}");
    }
    let none = ana.subscribe(&user("ana"), &["none".to_owned()]).unwrap();
    assert_eq!((none.notify.len(), none.set_by), (0, None));
    let entries = admin.audit(&gpool_client::AuditQuery::default()).unwrap();
    let text = serde_json::to_string(&entries).unwrap();
    assert!(text.contains("/subscription") && !text.contains("secret"), "{text}");
}

#[test]
fn users_name_no_address_inside_the_machine() {
    let mut rig = Rig::new();
    let (admin, ana) = (rig.client(OWNER), rig.client(ANA));
    let job = |url: &str| JobCreate {
        command: vec!["true".to_owned()],
        hold: true,
        notify: vec![format!("done@{url}")],
        ..JobCreate::default()
    };
    let made = ana.submit(&job("https://hooks.example/x"), None).unwrap();
    for host in
        ["127.0.0.1", "localhost:80", "[::1]:8080", "169.254.169.254", "127.1", "0x7f000001"]
    {
        for url in [format!("http://{host}/x"), format!("slack+http://{host}/x")] {
            assert_eq!(code(ana.submit(&job(&url), None)), 400, "{url}");
            assert_eq!(code(ana.forecast(&job(&url))), 400, "{url}");
            let patch = serde_json::from_value(json!({"notify": [format!("fail@{url}")]})).unwrap();
            assert_eq!(code(ana.edit(&made.id, &patch, None)), 400, "{url}");
            assert_eq!(code(ana.subscribe(&user("ana"), &[format!("digest@{url}")])), 400, "{url}");
            admin.submit(&job(&url), None).unwrap();
        }
    }
    let refused = ana.submit(&job("http://localhost/x"), None).unwrap_err().to_string();
    assert!(refused.contains("only admins") && refused.contains("notify_allow"), "{refused}");
}

#[test]
fn a_budget_that_is_nearly_used_up_is_reported_once() {
    let mut rig = Rig::new();
    let (admin, ana) = (rig.client(OWNER), rig.client(ANA));
    create(&admin, r#"{"name": "lab"}"#);
    create(&admin, r#"{"name": "vision", "parent": "lab"}"#);
    // It costs 4.
    let outside = Use { project: "", kind: UNMANAGED, ..use_of("", "H100-80G", "n1") };
    write(rig.folder.path(), this_minute(), &[&[use_of("9", "H100-80G", "n1"), outside]]);
    let budgets = |text: &str| set(&admin, &[("budgets", text)]);
    set(&admin, &[("prices", "currency=EUR,gpu=4")]);
    budgets("project.lab=5,user.ana=6");
    admin.subscribe(&project("lab"), &rules("budget")).unwrap();
    let lab = ("budget.reached".to_owned(), Some("project lab".to_owned()), "olga".to_owned());
    assert_eq!(waiting(&admin), std::slice::from_ref(&lab), "4 of 5");
    admin.subscribe(&user("ana"), &rules("budget,digest")).unwrap();
    rig.compare_budgets();
    assert_eq!(waiting(&admin), std::slice::from_ref(&lab), "4 of 6, and once");
    budgets("project.lab=4,user.ana=3");
    rig.compare_budgets();
    let ana_s = ("budget.reached".to_owned(), Some("user ana".to_owned()), "olga".to_owned());
    assert_eq!(waiting(&admin), [lab.clone(), lab, ana_s]);
    assert_eq!(waiting(&ana), [], "they are of the user that set the address");
}

#[test]
fn a_digest_has_the_week_of_the_payer_and_is_sent_once() {
    let mut rig = Rig::new();
    let (admin, ana, bo) = (rig.client(OWNER), rig.client(ANA), rig.client(BO));
    create(&admin, r#"{"name": "lab"}"#);
    create(&admin, r#"{"name": "vision", "parent": "lab", "gpus": 2}"#);
    let submit = |client: &Client, project: &str, command: &str| {
        let job = JobCreate {
            command: vec![command.to_owned()],
            gpus: Some("1".to_owned()),
            project: Some(project.to_owned()),
            ..JobCreate::default()
        };
        client.submit(&job, None).unwrap().id
    };
    let runs = submit(&ana, "vision", "sleep");
    for (client, project, command) in
        [(&ana, "vision", "waste"), (&bo, "vision", "true"), (&bo, "default", "true")]
    {
        let id = submit(client, project, command);
        rig.until("it has ended", || admin.job(&id).unwrap().run.ended_at.is_some());
    }
    rig.until("it runs", || admin.job(&runs).unwrap().run.started_at.is_some());
    let bo_s = Use { user: "bo", project: "default", ..use_of("9", "H100-80G", "n1") };
    let outside = Use { project: "", kind: UNMANAGED, ..use_of("", "H100-80G", "n1") };
    let uses = [use_of(&runs, "H100-80G", "n1"), bo_s, outside];
    write(rig.folder.path(), this_minute(), &[&uses]);
    let mut values = [None; JobSeries::N];
    values[JobSeries::GpuUtilization as usize] = Some(0.25);
    let jobs = &[JobSample { job: &runs, values, metrics: &[] }];
    let path = rig.folder.path().join("usage").join("history.db");
    let (mut history, _) = History::open(&path, Settings::default()).unwrap();
    let minute = this_minute();
    history.append(minute, minute, &Batch { jobs, ..Batch::default() }).unwrap();
    set(&admin, &[("prices", "currency=EUR,gpu=4"), ("budgets", "user.ana=16")]);

    let figures = |it: &Digest| (it.gpu_hours, it.busy_gpu_hours, it.idle_gpu_hours, it.cost);
    let own = ana.digest(&user("ana")).unwrap();
    assert_eq!(figures(&own), (1.0, Some(0.75), Some(0.25), Some(4.0)));
    let month = own.month.as_ref().unwrap();
    assert_eq!((month.spent, month.budget), (4.0, 16.0));
    assert_eq!((own.n_ended, own.n_failed, own.median_wait_s.is_some()), (1, 1, true));
    let [waste, sleep] = &own.jobs[..] else { panic!("{own:?}") };
    assert_eq!((waste.name.as_deref(), sleep.name.as_deref()), (Some("waste"), Some("sleep")));
    assert_eq!((&*sleep.id, waste.enough.len()), (&*runs, 1));
    let hours = |figure: f64| (figure * 100.0).round() as i64;
    assert_eq!((hours(waste.gpu_hours), hours(waste.idle_gpu_hours)), (200, 160));
    assert!(waste.enough[0].starts_with("--gpu-memory "), "{waste:?}");
    assert!(waste.unused[0].contains("4 GiB of 80 GiB"), "{waste:?}");
    let rows = ana.waste(None, None, false).unwrap();
    let of_waste: Vec<&str> = rows.iter().map(|row| &*row.job.id).collect();
    assert_eq!(of_waste, own.jobs.iter().map(|it| &*it.id).collect::<Vec<_>>());
    let lab = admin.digest(&project("lab")).unwrap();
    assert_eq!((figures(&lab), lab.n_ended), (figures(&own), 2));
    assert_eq!((lab.jobs[0].name.as_deref(), &*lab.jobs[0].user), (None, "ana"));
    let all = |name: &str| admin.digest(&project(name)).unwrap();
    assert_eq!((all("default").gpu_hours, all("default").n_ended), (1.0, 1));
    is_sent_once(&mut rig);
}

/// Sends the digests of two weeks to ana and bo, and none of an idle project.
fn is_sent_once(rig: &mut Rig) {
    let (admin, bo) = (rig.client(OWNER), rig.client(BO));
    let monday = week_end(at("2026-11-23T08:00:00Z"), &TimeZone::UTC).unwrap();
    let now = gpool_listen::testing::now();
    let mut next = monday;
    while next <= now {
        next = next.after(WEEK);
    }
    for (client, name) in [(&admin, "ana"), (&bo, "bo")] {
        client.subscribe(&user(name), &rules("digest")).unwrap();
    }
    create(&admin, r#"{"name": "idle"}"#);
    admin.subscribe(&project("idle"), &rules("digest")).unwrap();
    rig.report_digests(now);
    assert_eq!(waiting(&admin), [], "that week had ended before");
    for at in [next, next.after(Millis::from_hours(30))] {
        rig.report_digests(at);
        let message = |name: &str, user: &str| {
            ("digest.weekly".to_owned(), Some(format!("user {name}")), user.to_owned())
        };
        // A user may not name an address inside the machine: it is given up, and listed.
        let mut found = waiting(&admin);
        found.sort();
        assert_eq!(found, [message("ana", "olga"), message("bo", "bo")], "once, and not of idle");
    }
}
