//! Tables that their headings sort.

use gpool_web::{
    Admin, CostPage, Filters, Frame, Nodes, Order, PROPERTIES, Projects, Queue, Reservations,
    UsagePage, admin_orders, cost_orders, gpu_orders, project_orders, reservation_orders,
    usage_orders,
};
use gpool_wire::usage::UsageRow;
use gpool_wire::{GroupStatus, Job, Node, PolicyInfo, QuotaOverview, Reservation, UserLimits};
use serde_json::json;

use crate::minute;
use crate::overview::{gpu, status};

/// The first cells of the rows.
fn rows(page: &str) -> Vec<&str> {
    let parts = page.split("<th scope=\"row\">").skip(1);
    parts.map(|part| part.split("</th>").next().unwrap()).collect()
}

/// The headings that sort lead to the address with each key, and the table is sorted by one.
fn has_heads(page: &str, address: &str, keys: &[&str], sorted: &str) {
    for key in keys {
        let links = ["", "-"].map(|sign| format!("href=\"{address}sort={sign}{key}\""));
        assert!(links.iter().any(|link| page.contains(link)), "{key}: {page}");
    }
    assert!(page.contains(&format!("aria-sort=\"{sorted}\"")), "{page}");
}

#[test]
fn gpus_of_nodes_are_sorted_by_their_use() {
    let gpus = [0.2, 0.9, 0.5].map(|part| json!({"utilization": part}));
    let gpus: Vec<_> = (0..).zip(gpus).map(|(ix, more)| gpu(ix, "busy", &more)).collect();
    let node = json!({
        "name": "lab1", "pool": "default", "connected": true, "version": "1", "system": "",
        "devices_from": "nvml", "n_gpus": 3, "n_gpus_free": 0, "cpus": 1.0, "cpus_used": 0.0,
        "memory": 0, "memory_used": 0, "tasks": 1, "tasks_used": 0,
    });
    let nodes: [Node; 1] = [serde_json::from_value(node).unwrap()];
    let page = |order| {
        let frame = Frame::default();
        Nodes { frame, nodes: &nodes, gpus: &gpus, order, now: minute(1) }.page()
    };
    let found = page(Order::of("-use"));
    assert_eq!(rows(&found), ["lab1:1", "lab1:2", "lab1:0"]);
    has_heads(&found, "/nodes?", &gpu_orders(), "descending");
    assert_eq!(rows(&page(Order::default())), ["lab1:0", "lab1:1", "lab1:2"]);
}

#[test]
fn projects_and_loans_are_sorted_without_their_departments() {
    let row = |name: &str, depth: u32, held: f64| {
        let lent = json!([{
            "project": name, "gpus": held, "when_asked": true, "until": null, "basis": null,
        }]);
        json!({
            "project": name, "parent": null, "depth": depth, "department": depth == 0,
            "guaranteed": 4, "limit": null, "share": held, "held": held, "in_quota": 0.0,
            "on_loan": held, "for_good": 0.0, "used": 0.0, "borrows": lent, "lends": [],
            "n_pending": 0, "pending": 0.0,
        })
    };
    let projects = [row("lab", 0, 1.0), row("vision", 1, 3.0), row("nlp", 1, 2.0)];
    let quota =
        json!({"gpus": 8.0, "projects": projects, "shared": true, "returns": [], "warnings": []});
    let quota: QuotaOverview = serde_json::from_value(quota).unwrap();
    let page =
        |order| Projects { frame: Frame::default(), quota: &quota, order, now: minute(1) }.page();
    let names = |page: &str| -> Vec<String> {
        let links = page.split("class=\"depth").skip(1);
        links.map(|it| it[..it.find("</a>").unwrap()].to_owned()).collect()
    };
    assert_eq!(names(&page(Order::default())), ["0\">lab", "1\">vision", "1\">nlp"]);
    let found = page(Order::of("-held"));
    assert_eq!(names(&found), ["0\">vision", "0\">nlp", "0\">lab"]);
    has_heads(&found, "/projects?", &project_orders(), "descending");
    let lent = page(Order::of("lent"));
    assert!(
        lent.find("<td class=\"number\">1</td><td>when").unwrap()
            < lent.rfind(">3</td><td>").unwrap()
    );
    assert_eq!(names(&lent), ["0\">lab", "1\">vision", "1\">nlp"], "the other table stays");
}

#[test]
fn limits_of_users_and_settings_are_sorted() {
    let limits = |user: &str, n: u64| -> UserLimits {
        let limits = json!({
            "user": user, "own": false, "running_jobs": null, "pending_jobs": null, "gpus": null,
            "n_running": n, "n_pending": 0, "n_gpus": 0.0,
        });
        serde_json::from_value(limits).unwrap()
    };
    let limits = [limits("all", 0), limits("ana", 2), limits("bo", 7)];
    let policy: PolicyInfo = serde_json::from_value(json!({
        "preset": "fair", "order": [], "escalate_after_s": 1, "device_strategy": "sequential",
        "user_priority_max": 0, "settings": {"a": "2", "b": "1"},
    }))
    .unwrap();
    let status = status(2);
    let page = |order| {
        let frame = Frame::default();
        Admin { frame, status: &status, policy: &policy, limits: &limits, order }.page()
    };
    let found = page(Order::of("-running"));
    assert_eq!(rows(&found)[..3], ["bo", "ana", "all others"]);
    has_heads(&found, "/admin?", &admin_orders(), "descending");
    assert_eq!(rows(&page(Order::of("value")))[3..], ["<code>b</code>", "<code>a</code>"]);
}

#[test]
fn reservations_are_sorted() {
    let reservation = |name: &str, reason: &str| -> Reservation {
        let it = json!({
            "name": name, "kind": "reservation", "state": "planned", "for": "user",
            "beneficiary": "ana", "from": minute(9), "until": null, "every": null,
            "gpus_asked": null, "gpus": [], "nodes": ["lab1"], "at_begin": "let_finish",
            "reason": reason, "made_by": "root", "made_at": minute(0),
        });
        serde_json::from_value(it).unwrap()
    };
    let all = [reservation("r1", "z"), reservation("r2", "a")];
    let (frame, order) = (Frame::default(), Order::of("reason"));
    let found = Reservations { frame, reservations: &all, order, now: minute(1) }.page();
    assert_eq!(rows(&found), ["r2", "r1", "r2", "r1"], "in the chart and in the list");
    has_heads(&found, "/reservations?", &reservation_orders(), "ascending");
}

#[test]
fn a_queue_that_is_sorted_in_part_says_so() {
    let jobs: Vec<Job> =
        (1..=101_u32).map(|id| Job { id: id.to_string(), ..Job::default() }).collect();
    let page = |jobs: &[Job], sort: &str, next: Option<&str>| {
        let filters = Filters { sort: sort.to_owned(), ..Filters::default() };
        let (frame, filters, address) = (Frame::default(), &filters, "/queue");
        let now = minute(1);
        Queue { frame, filters, jobs, n_rows: None, next, address, plan: None, now }.page()
    };
    let all = page(&jobs, "-id", None);
    assert_eq!(all.matches("<th scope=\"row\">").count(), 100);
    assert!(all.contains("The first 100 of 101 sorted jobs are shown."), "{all}");
    assert!(all.contains("/jobs/101\"") && !all.contains("not in this order"), "{all}");
    assert!(page(&jobs, "-id", Some("cursor=x")).contains("are not in this order: filter"));
    assert!(!page(&jobs[..9], "-id", None).contains("sorted"));
    assert!(!page(&jobs, "", Some("cursor=x")).contains("sorted jobs"));
}

#[test]
fn a_group_is_one_row_that_leads_to_its_jobs() {
    let group = |name: &str, n_jobs| GroupStatus {
        name: name.to_owned(),
        n_jobs,
        n_by_state: [("running".to_owned(), n_jobs)].into(),
        n_by_gpus: [("0".to_owned(), 1), ("0.5".to_owned(), n_jobs - 1)].into(),
    };
    let page = |job: Job| {
        let (frame, filters, address) = (Frame::default(), &Filters::default(), "/queue");
        let (jobs, now) = (&[job][..], minute(1));
        Queue { frame, filters, jobs, n_rows: None, next: None, address, plan: None, now }.page()
    };
    let of = |group| Job { id: "7".to_owned(), group: Some(group), ..Job::default() };
    let found = page(of(group("tuning", 12)));
    assert!(found.contains("href=\"/groups/tuning\">group:tuning<"), "{found}");
    assert!(found.contains("0.5 ×11") && found.contains("12 jobs · 12 running"), "{found}");
    assert!(!found.contains("Select job"), "the box would select its first job alone");
    let alone = page(of(group("tuning", 1)));
    assert!(alone.contains("href=\"/jobs/7\">7<") && alone.contains("Select job 7"), "{alone}");
    let hidden = page(Job { private: true, ..of(group("(private)", 2)) });
    assert!(hidden.contains("href=\"/jobs/7\">7<"), "{hidden}");
}

#[test]
fn rows_of_usage_and_cost_lead_to_their_jobs() {
    let row = |by: &str| {
        let mut row = json!({"start": minute(0), "gpu_hours": 1.0, "measured_gpu_hours": 0.0,
            "waited_gpu_hours": 0.0});
        row[by] = json!("x&y");
        serde_json::from_value::<UsageRow>(row).unwrap()
    };
    let page = |by: &str, only: &str, rows: &[UsageRow]| {
        let (frame, order) = (Frame::default(), Order::of("-hours"));
        UsagePage { frame, rows, course: None, by, only, range: "7d", order }.page()
    };
    for by in &PROPERTIES[..6] {
        let found = page(by, "", &[row(by)]);
        let link = format!("/usage?by=job&#38;range=7d&#38;only={by}%3Dx%26y\"");
        assert!(found.contains(&link), "{link}: {found}");
    }
    let jobs = page("job", "kind=train", &[row("job")]);
    assert!(jobs.contains("href=\"/jobs/x&#38;y\"") && jobs.contains("Only <b>kind=train</b>"));
    has_heads(
        &jobs,
        "/usage?by=job&#38;range=7d&#38;only=kind%3Dtrain&#38;",
        &usage_orders("job"),
        "descending",
    );
    let narrower = page("user", "kind=train", &[row("user")]);
    assert!(narrower.contains("only=kind%3Dtrain%2Cuser%3Dx%26y"), "{narrower}");
    let outside = page("user", "", &[UsageRow { is_outside: true, ..row("user") }]);
    assert!(!outside.contains("by=job&#38;range=7d&#38;only="), "{outside}");
    let cost = CostPage {
        frame: Frame::default(),
        rows: &[],
        budgets: &[],
        by: "kind",
        only: "",
        range: "7d",
        since: "7d",
        order: Order::of("-cost"),
    };
    let head = |key: &str| format!("/cost?by=kind&#38;range=7d&#38;sort={key}");
    let found = cost.page();
    assert!(found.contains(&head("cost")), "{found}");
    assert!(cost_orders().contains(&"spent"), "budgets have orders of their own");
}
