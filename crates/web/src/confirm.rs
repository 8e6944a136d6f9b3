//! The question before jobs are cancelled or requeued.

use askama::Template;

use crate::frame::Frame;
use crate::render;

#[derive(Debug, Clone, Copy, Template)]
#[template(path = "confirm.html")]
pub struct Confirm<'a> {
    pub frame: Frame<'a>,
    pub verb: &'a str,
    /// The IDs of the jobs.
    pub jobs: &'a [String],
}

impl Confirm<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        render(self)
    }
}
