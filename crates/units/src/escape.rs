//! Escapes text from outside for messages: shortened, and without characters that control a
//! terminal.

/// The most characters of a text from outside that a message repeats.
pub const REPEATED_MAX: usize = 200;

/// Whether a terminal would react to the character, it changes the direction of text, or a reader
/// can't see it. Joiners (U+200C, U+200D) are parts of words and emoji.
#[must_use]
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0x00AD | 0x034F | 0x061C | 0x115F | 0x1160 | 0x180E | 0x200B | 0x200E | 0x200F
            | 0x2028..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xFEFF | 0xFFA0
            | 0xFFF9..=0xFFFB | 0xE0000..=0xE007F)
}

/// Adds a character to a text; an unprintable one as in Rust source: `\n`, `\u{202e}`.
pub fn push_escaped(text: &mut String, c: char) {
    match is_unprintable(c) {
        false => text.push(c),
        true if c.is_control() => text.extend(c.escape_debug()),
        true => text.extend(c.escape_unicode()),
    }
}

/// The beginning of a text from outside, with control characters escaped.
#[must_use]
pub fn repeated(text: &str) -> String {
    let mut shown = String::new();
    text.chars().take(REPEATED_MAX).for_each(|c| push_escaped(&mut shown, c));
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
