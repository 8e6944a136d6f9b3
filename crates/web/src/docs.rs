//! The page of the API: its routes with their summaries.

use askama::Template;

use crate::frame::Frame;
use crate::render;

#[derive(Debug, Clone)]
pub struct Route {
    /// The method in capitals.
    pub method: String,
    pub path: String,
    pub summary: String,
    /// The parameters with their descriptions.
    pub params: Vec<(String, String)>,
    /// An example of a body; empty without one.
    pub example: String,
}

/// The contents of the page of the API.
#[derive(Debug, Clone, Copy, Template)]
#[template(path = "docs.html")]
pub struct Docs<'a> {
    pub frame: Frame<'a>,
    /// The path of the socket that serves the API.
    pub socket: &'a str,
    pub routes: &'a [Route],
}

impl Docs<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        render(self)
    }
}
