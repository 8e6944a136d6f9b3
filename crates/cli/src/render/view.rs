//! What rendering must know beside the data.

use gpool_wire::Time;

use super::clock::Clock;

/// Who reads, when, and in which zone.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// How moments are written.
    pub clock: &'a Clock,
    /// The moment it is.
    pub now: Time,
    /// The reader's user name, shown as `you`.
    pub me: &'a str,
}

impl View<'_> {
    /// A user's name as the reader sees it.
    #[must_use]
    pub fn user<'u>(&self, user: &'u str) -> &'u str {
        if user == self.me { "you" } else { user }
    }
}
