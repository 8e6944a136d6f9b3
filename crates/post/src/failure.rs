//! The texts of failures.

use std::sync::Arc;

use gpool_model::notify::Sent;

pub fn failed(why: &str) -> Sent {
    Sent::Failed { why: short(why) }
}

/// Text of a user in one line of ours.
pub fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Shortens the text of an error for its record.
pub fn short(why: &str) -> Arc<str> {
    const MAX: usize = 200;
    Arc::from(why.chars().take(MAX).collect::<String>())
}
