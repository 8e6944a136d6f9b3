//! Makes text of users safe for a terminal: characters that would move the cursor, change colors or
//! reorder letters become visible escapes. Every name, note, path, command and message from outside
//! passes here before it is printed.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

use gpool_model::escape::is_unprintable;

/// The text with control, escape, bidirectional and invisible characters made visible.
#[must_use]
pub fn safe(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            c if !is_unprintable(c) => shown.push(c),
            c if u32::from(c) < 0x100 => {
                let _ = write!(shown, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(shown)
}

/// JSON text with such characters escaped. JSON itself only requires it for the first 32 control
/// characters, and terminals react to more.
#[must_use]
pub fn safe_json(document: &str) -> Cow<'_, str> {
    let is_raw = |c: char| c != '\n' && is_unprintable(c);
    if !document.chars().any(is_raw) {
        return Cow::Borrowed(document);
    }
    let mut escaped = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        if is_raw(c) {
            // JSON has such characters only inside strings, so an escape is valid here.
            let mut units = [0u16; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Writes output of another user's job to a terminal: makes all control characters visible except
/// newlines and tabs. The user's own output is not filtered.
#[derive(Debug)]
pub struct Plain<W> {
    pub to: W,
    /// The first bytes of an incomplete character.
    pending: Vec<u8>,
    /// Whether carriage return and backspace pass.
    moves: bool,
}

/// Output to a terminal: unchanged, or filtered by [`Plain`] for an interactive program of another
/// user. The filter passes carriage return and backspace, which move within a line.
#[derive(Debug)]
pub enum TerminalOutput<W> {
    Raw(W),
    /// With control characters made visible.
    Plain(Plain<W>),
}

impl<W: Write> TerminalOutput<W> {
    pub fn new(to: W, is_plain: bool) -> Self {
        match is_plain {
            true => Self::Plain(Plain { moves: true, ..Plain::new(to) }),
            false => Self::Raw(to),
        }
    }
}

impl<W: Write> Write for TerminalOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Raw(to) => to.write(bytes),
            Self::Plain(to) => to.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Raw(to) => to.flush(),
            Self::Plain(to) => to.flush(),
        }
    }
}

impl<W: Write> Plain<W> {
    pub fn new(to: W) -> Self {
        Self { to, pending: Vec::new(), moves: false }
    }

    fn is_shown(&self, c: char) -> bool {
        !c.is_control() || matches!(c, '\n' | '\t') || (self.moves && matches!(c, '\r' | '\x08'))
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.pending);
        all.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(all.len() + 16);
        let mut rest = &all[..];
        loop {
            let (valid, error) = match std::str::from_utf8(rest) {
                Ok(valid) => (valid, None),
                Err(error) => {
                    let valid = std::str::from_utf8(&rest[..error.valid_up_to()]);
                    (valid.unwrap_or_default(), Some(error))
                }
            };
            for c in valid.chars() {
                match self.is_shown(c) {
                    true => write!(shown, "{c}")?,
                    false => write!(shown, "\\x{:02x}", u32::from(c))?,
                }
            }
            rest = &rest[valid.len()..];
            let Some(n_bad) = error.and_then(|error| error.error_len()) else { break };
            for byte in &rest[..n_bad] {
                // Terminals without UTF-8 interpret such a byte alone.
                match byte {
                    0x80..=0x9F => write!(shown, "\\x{byte:02x}")?,
                    byte => shown.push(*byte),
                }
            }
            rest = &rest[n_bad..];
        }
        self.pending = rest.to_vec();
        self.to.write_all(&shown)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
