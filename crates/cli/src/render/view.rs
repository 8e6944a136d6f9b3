//! Context for rendering beside the data.

use gpool_wire::Time;

use super::clock::Clock;

/// The reader, the current time and the time zone.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Writes times.
    pub clock: &'a Clock,
    /// The current time.
    pub now: Time,
    /// The reader's user name, shown as `you`.
    pub me: &'a str,
}

impl View<'_> {
    /// A user's name, or `you`.
    #[must_use]
    pub fn user<'u>(&self, user: &'u str) -> &'u str {
        if user == self.me { "you" } else { user }
    }
}
