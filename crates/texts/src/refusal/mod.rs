//! Texts of refusals: what failed, why, and what to do.
//!
//! Each file contains one kind of refusal.

mod fit;
mod job;
mod limits;
mod project;
mod reserve;
mod server;

use gpool_model::Refusal;

use crate::catalogue;
use crate::problem::Problem;

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        let text = fit::text(refusal)
            .or_else(|| job::text(refusal))
            .or_else(|| limits::text(refusal))
            .or_else(|| project::text(refusal))
            .or_else(|| reserve::text(refusal))
            .or_else(|| server::text(refusal));
        text.unwrap_or_else(|| {
            let title = catalogue::entry(refusal.code()).map_or("", |entry| entry.title);
            Self::new(refusal.code(), title)
        })
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::from(&refusal)
    }
}
