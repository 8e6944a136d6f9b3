//! The page for admins: server, store, policy and limits of users.

use askama::Template;
use gpool_wire::{PolicyInfo, Status, UserLimits};

use crate::frame::Frame;
use crate::text::span;
use crate::written;

/// The contents of the page for admins.
#[derive(Debug, Clone, Copy)]
pub struct Admin<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// The status of the server.
    pub status: &'a Status,
    /// The policy.
    pub policy: &'a PolicyInfo,
    /// Limits of users with jobs; those for all others first.
    pub limits: &'a [UserLimits],
}

struct User<'a> {
    name: &'a str,
    running: String,
    waiting: String,
    gpus: String,
}

#[derive(Template)]
#[template(path = "admin.html")]
struct Page<'a> {
    frame: Frame<'a>,
    rows: Vec<(&'static str, String)>,
    faults: Vec<&'a str>,
    policy: &'a PolicyInfo,
    users: Vec<User<'a>>,
}

impl Admin<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let status = self.status;
        let faults = [&status.store_fault, &status.usage_fault, &status.lacking];
        written(&Page {
            frame: self.frame,
            rows: rows(status),
            faults: faults.into_iter().filter_map(|fault| fault.as_deref()).collect(),
            policy: self.policy,
            users: self.limits.iter().map(user).collect(),
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
