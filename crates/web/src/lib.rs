//! The pages of the dashboard: answers of the API in, HTML out. All texts of users are escaped, and
//! no page needs JavaScript; `assets/live.js` only loads the contents again.

mod assets;
mod chart;
mod heat;
mod job;
mod overview;
mod text;
mod usage;
mod wall;

use askama::Template;

pub use assets::{Asset, asset};
pub use job::JobPage;
pub use overview::{Overview, RANGES};
pub use usage::{PROPERTIES, UsagePage};
pub use wall::Wall;

/// The content security policy of all pages: only files of the server, no inline script or
/// style.
pub const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                       connect-src 'self'; form-action 'none'; frame-ancestors 'none'; \
                       base-uri 'none'";

/// A page with a short text, for example how to sign in.
#[derive(Debug, Clone, Copy, Template)]
#[template(path = "message.html")]
pub struct Message<'a> {
    /// The heading.
    pub title: &'a str,
    /// The text.
    pub text: &'a str,
    /// A command that helps, if there is one.
    pub command: &'a str,
}

impl Message<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        written(self)
    }
}

/// Templates write to memory and call no function that fails.
fn written(page: &dyn askama::DynTemplate) -> String {
    page.dyn_render().unwrap_or_default()
}
