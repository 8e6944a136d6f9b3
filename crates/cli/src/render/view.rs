//! Context for rendering beside the data.

use gpool_wire::Time;

use super::clock::Clock;

/// The reader, the current time and the time zone.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub clock: &'a Clock,
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

    /// A text of the server for the reader: the server writes the names of all users, as in
    /// `job 7 (ana)`, `job 7 of ana`, `paused by ana`.
    #[must_use]
    pub fn addressed(&self, text: &str) -> String {
        let mut rest = text;
        let mut said = String::with_capacity(text.len());
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
        while let Some(at) = rest.find(self.me).filter(|_| !self.me.is_empty()) {
            let (before, after) = (&rest[..at], &rest[at + self.me.len()..]);
            said.push_str(before);
            // A name at the end of a sentence has a period behind it.
            let is_whole = !after.starts_with(is_name) || after.starts_with(". ") || after == ".";
            let job = said.strip_suffix(" of ").and_then(|said| said.rfind("job ")).filter(|at| {
                let id = said[at + 4..].trim_end_matches(" of ");
                !id.contains(' ') && id.starts_with(|c: char| c.is_ascii_digit())
            });
            match job {
                Some(at) if is_whole => {
                    said.truncate(said.len() - " of ".len());
                    said.insert_str(at, "your ");
                }
                _ if is_whole && said.ends_with('(') && after.starts_with([')', ',']) => {
                    said.push_str("you");
                }
                _ if is_whole
                    && [" by ", " by admin ", " for "].iter().any(|it| said.ends_with(it)) =>
                {
                    let kept = said.trim_end_matches("admin ").len();
                    said.truncate(kept);
                    said.push_str("you");
                }
                _ => said.push_str(self.me),
            }
            rest = after;
        }
        said.push_str(rest);
        said
    }
}
