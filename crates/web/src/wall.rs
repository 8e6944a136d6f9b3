//! The page for a screen on the wall: large numbers, and no names.

use askama::Template;
use gpool_wire::{Gpu, Status};

use crate::frame::Frame;
use crate::overview::Counts;
use crate::render;

/// The contents of the wall page.
#[derive(Debug, Clone, Copy)]
pub struct Wall<'a> {
    pub gpus: &'a [Gpu],
    pub status: &'a Status,
}

#[derive(Template)]
#[template(path = "wall.html")]
struct WallPage<'a> {
    frame: Frame<'a>,
    counts: Counts,
}

impl Wall<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let counts = Counts::of(self.gpus, &self.status.jobs);
        render(&WallPage { frame: Frame::default(), counts })
    }
}
