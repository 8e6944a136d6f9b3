//! The page for a screen on the wall: large numbers, and no names.

use askama::Template;
use gpool_wire::Gpu;

use crate::overview::Counts;
use crate::written;

/// The contents of the wall page.
#[derive(Debug, Clone, Copy)]
pub struct Wall<'a> {
    /// All devices.
    pub gpus: &'a [Gpu],
    /// The number of jobs that run.
    pub n_running: u64,
    /// The number of jobs that wait.
    pub n_waiting: u64,
}

#[derive(Template)]
#[template(path = "wall.html")]
struct Page {
    counts: Counts,
    n_running: u64,
    n_waiting: u64,
}

impl Wall<'_> {
    /// The page.
    #[must_use]
    pub fn page(&self) -> String {
        let counts = Counts::of(self.gpus);
        written(&Page { counts, n_running: self.n_running, n_waiting: self.n_waiting })
    }
}
