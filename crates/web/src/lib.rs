//! The pages of the dashboard: answers of the API in, HTML out. All texts of users are escaped, and
//! no page needs JavaScript; `assets/live.js` only loads the contents again.

mod admin;
mod assets;
mod bars;
mod confirm;
mod cost;
mod course;
mod docs;
mod frame;
mod gantt;
mod group;
mod heat;
mod job;
mod jobs;
mod lines;
mod nodes;
mod overview;
mod parallel;
mod plot;
mod projects;
mod queue;
mod ranges;
mod reservations;
mod saved;
mod sort;
mod spec;
mod submit;
mod text;
mod usage;
mod wall;
mod whatif;

use askama::Template;

pub use admin::{Admin, admin_orders};
pub use assets::{Asset, asset};
pub use bars::Bars;
pub use confirm::Confirm;
pub use cost::{CostPage, cost_orders};
pub use docs::{Docs, Route};
pub use frame::Frame;
pub use group::{GroupPage, group_orders};
pub use job::{JobPage, job_page_orders};
pub use jobs::job_orders;
pub use lines::csv;
pub use nodes::{Nodes, gpu_orders};
pub use overview::Overview;
pub use projects::{Projects, project_orders};
pub use queue::{Filters, Queue, STATES};
pub use ranges::RANGES;
pub use reservations::{Reservations, reservation_orders};
pub use saved::{SavedJob, SavedTable, saved_jobs};
pub use sort::Order;
pub use submit::{Submit, SubmitForm};
pub use usage::{PROPERTIES, UsagePage, usage_orders};
pub use wall::Wall;
pub use whatif::{Supposed, WhatIf, whatif_orders};

/// The content security policy of all pages: only files of the server, no inline script or
/// style.
pub const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                       connect-src 'self'; form-action 'self'; frame-ancestors 'none'; \
                       base-uri 'none'";

/// A page with a short text, for example how to sign in.
#[derive(Debug, Clone, Copy, Default, Template)]
#[template(path = "message.html")]
pub struct MessagePage<'a> {
    pub frame: Frame<'a>,
    pub title: &'a str,
    pub text: &'a str,
    pub lines: &'a [String],
    /// A command that helps, if there is one.
    pub command: &'a str,
}

impl MessagePage<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        render(self)
    }
}

/// The page that signs in with a token or a link, or at the identity provider.
#[derive(Debug, Clone, Copy, Default, Template)]
#[template(path = "sign_in.html")]
pub struct SignIn<'a> {
    pub frame: Frame<'a>,
    /// Why the last attempt failed.
    pub wrong: &'a str,
    /// The host of the identity provider; empty without one.
    pub provider: &'a str,
    /// Whether a token signs in here; otherwise a link of `gpool open`.
    pub by_token: bool,
}

impl SignIn<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        render(self)
    }
}

/// Templates write to memory and call no function that fails.
fn render(page: &dyn askama::DynTemplate) -> String {
    page.dyn_render().unwrap_or_default()
}
