//! The question before jobs are cancelled or requeued.

use askama::Template;

use crate::frame::Frame;
use crate::written;

/// The contents of the question.
#[derive(Debug, Clone, Copy, Template)]
#[template(path = "confirm.html")]
pub struct Confirm<'a> {
    /// The frame.
    pub frame: Frame<'a>,
    /// The verb.
    pub verb: &'a str,
    /// The IDs of the jobs.
    pub jobs: &'a [String],
}

impl Confirm<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        written(self)
    }
}
