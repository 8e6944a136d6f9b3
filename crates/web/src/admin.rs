//! The page for admins: server, store, policy and limits of users.

use askama::Template;
use gpool_wire::{PolicyInfo, Status, UserLimits};

use crate::frame::Frame;
use crate::render;
use crate::sort::{By, Column, ColumnHeading, Order, keys};
use crate::text::span;

/// The contents of the page for admins.
#[derive(Debug, Clone, Copy)]
pub struct Admin<'a> {
    pub frame: Frame<'a>,
    pub status: &'a Status,
    pub policy: &'a PolicyInfo,
    /// Limits of users with jobs; those for all others first.
    pub limits: &'a [UserLimits],
    pub order: Order<'a>,
}

const USERS: [Column<UserLimits>; 4] = [
    Column("User", "user", By::Text(|it| it.user.clone())),
    Column("Running", "running", By::Number(|it| number(it.n_running))),
    Column("Waiting", "waiting", By::Number(|it| number(it.n_pending))),
    Column("GPUs", "gpus", By::Number(|it| it.n_gpus)),
];

/// The columns of the settings of the policy.
fn setting_columns<'s>() -> [Column<(&'s str, &'s str)>; 2] {
    [
        Column("Setting", "setting", By::Text(|(key, _)| (*key).to_owned())),
        Column("Value", "value", By::Text(|(_, value)| (*value).to_owned())),
    ]
}

/// The keys of orders that the tables can have.
#[must_use]
pub fn admin_orders() -> Vec<&'static str> {
    [keys(&USERS), keys(&setting_columns())].concat()
}

fn number(n: u64) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

struct User<'a> {
    name: &'a str,
    running: String,
    waiting: String,
    gpus: String,
}

#[derive(Template)]
#[template(path = "admin.html")]
struct AdminPage<'a> {
    frame: Frame<'a>,
    rows: Vec<(&'static str, String)>,
    faults: Vec<&'a str>,
    policy: &'a PolicyInfo,
    settings: Vec<(&'a str, &'a str)>,
    setting_heads: Vec<ColumnHeading>,
    users: Vec<User<'a>>,
    heads: Vec<ColumnHeading>,
}

impl Admin<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let status = self.status;
        let faults = [
            &status.store_fault,
            &status.web_fault,
            &status.network_fault,
            &status.usage_fault,
            &status.lacking,
        ];
        let mut users: Vec<&UserLimits> = self.limits.iter().collect();
        self.order.sort(&USERS, &mut users, |it| *it);
        let settings = self.policy.settings.iter();
        let mut settings: Vec<_> = settings.map(|(key, it)| (key.as_str(), it.as_str())).collect();
        let columns = setting_columns();
        self.order.sort(&columns, &mut settings, |it| it);
        render(&AdminPage {
            frame: self.frame,
            rows: rows(status),
            faults: faults.into_iter().filter_map(|fault| fault.as_deref()).collect(),
            policy: self.policy,
            settings,
            setting_heads: self.order.heads(&columns, "/admin"),
            users: users.into_iter().map(user).collect(),
            heads: self.order.heads(&USERS, "/admin"),
        })
    }
}

fn rows(status: &Status) -> Vec<(&'static str, String)> {
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    vec![
        ("Version", status.version.clone()),
        ("User", status.user.clone()),
        ("Process", status.pid.to_string()),
        ("Running for", span(status.uptime_s)),
        ("Starts (term)", status.term.to_string()),
        ("State folder", status.state_dir.clone()),
        ("Last commit", status.revision.to_string()),
        ("Nodes", format!("{} of {} connected", status.nodes_connected, status.nodes)),
        ("Ended jobs", status.jobs_ended.to_string()),
        ("Can send mail", yes(status.mail)),
    ]
}

fn user(limits: &UserLimits) -> User<'_> {
    let of = |used: String, most: Option<String>| match most {
        Some(most) => format!("{used} of {most}"),
        None => used,
    };
    let whole = |most: Option<u64>| most.map(|most| most.to_string());
    User {
        name: if limits.user == "all" { "all others" } else { &limits.user },
        running: of(limits.n_running.to_string(), whole(limits.running_jobs)),
        waiting: of(limits.n_pending.to_string(), whole(limits.pending_jobs)),
        gpus: of(limits.n_gpus.to_string(), limits.gpus.map(|gpus| gpus.to_string())),
    }
}
