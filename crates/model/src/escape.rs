//! Escapes text from outside for messages: shortened, and without characters that control a
//! terminal.

/// The most characters of a text from outside that a message repeats.
pub const REPEATED_MAX: usize = 200;

/// Whether it is a control character, or one that changes the direction of text.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The beginning of a text from outside, with control characters escaped.
#[must_use]
pub fn repeated(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(REPEATED_MAX) {
        match is_unprintable(c) {
            true => shown.extend(c.escape_debug()),
            false => shown.push(c),
        }
    }
    if text.chars().nth(REPEATED_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The unknown name and the known names in serde's message about an unknown field or variant. The
/// unknown name may contain any text, even the words of serde's message; the known ones are those
/// of the program.
#[must_use]
pub fn unknown_name(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message
        .strip_prefix("unknown field `")
        .or_else(|| message.strip_prefix("unknown variant `"))?;
    let (found, rest) = rest.rsplit_once("`, expected ")?;
    Some((found, rest.split('`').skip(1).step_by(2).collect()))
}
