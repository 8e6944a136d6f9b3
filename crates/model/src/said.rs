//! Text from outside as messages repeat it: never endless, and nothing that a terminal would obey.

/// Most characters of a text from outside that a message repeats.
pub const REPEATED_MAX: usize = 200;

/// Control characters, and those that turn the direction of the text around them.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// As much of a text from outside as a message repeats, with what a terminal would obey written
/// out.
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

/// The unknown name and the known ones, out of serde's words for an unknown field or variant. The
/// unknown one may hold anything, serde's own words among it; the known ones are the program's.
#[must_use]
pub fn unknown_name(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message
        .strip_prefix("unknown field `")
        .or_else(|| message.strip_prefix("unknown variant `"))?;
    let (found, rest) = rest.rsplit_once("`, expected ")?;
    Some((found, rest.split('`').skip(1).step_by(2).collect()))
}
