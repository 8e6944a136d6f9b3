//! The display of a running simulation: one line, or the whole terminal.

use std::io::IsTerminal as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::screen::is_dumb;
use gpool_cli::session::Session;
use gpool_cli::terminal::no_terminal;
use gpool_model::Timestamp;
use gpool_trace::scene::Scene;

use super::{Ending, Watch, Watched};
use crate::simulate::progress::Line;

/// The display.
pub enum Shown<'s> {
    Line(Line<'s>),
    /// The whole terminal.
    Full(Box<Watch<'s>>),
}

impl<'s> Shown<'s> {
    /// Starts the display; `is_full` asks for the whole terminal.
    ///
    /// # Errors
    /// There is no suitable terminal.
    pub fn new(
        session: &'s Session,
        is_full: bool,
        watched: Watched,
        ending: &Ending,
    ) -> Result<Self> {
        if !is_full {
            return Ok(Self::Line(Line::new(session, watched.extent, watched.n_policies)));
        }
        let watch = Watch::start(session, watched, ending.clone())?;
        Ok(Self::Full(Box::new(watch)))
    }

    /// Starts a policy.
    pub fn begin(&mut self, policy: &str) {
        match self {
            Self::Line(line) => line.begin(policy),
            Self::Full(watch) => watch.begin(policy),
        }
    }

    /// Updates the display before an event; `n_come` jobs have arrived.
    pub fn look(&mut self, scene: &dyn Scene, until: Timestamp, n_come: u64) {
        match self {
            Self::Line(line) => line.look(scene, until, n_come),
            Self::Full(watch) => watch.look(scene, until, n_come),
        }
    }

    /// Completes the policy.
    pub fn end(&mut self) {
        match self {
            Self::Line(line) => line.end(),
            Self::Full(watch) => watch.end(),
        }
    }
}

/// Checks early that a full-screen view is possible.
///
/// # Errors
/// Standard input or output is not a terminal, or it can't move the cursor.
pub fn needs_terminal(session: &Session, tip: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() || !session.screen.is_terminal() {
        return Err(no_terminal("--watch").tip(tip));
    }
    if is_dumb() {
        let what = "--watch needs a terminal that can move the cursor";
        let failure = Failure::new(errors::NO_TERMINAL_HERE, what);
        return Err(failure.why("TERM=dumb declares that this one can't").tip(tip));
    }
    Ok(())
}
