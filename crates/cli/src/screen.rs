//! Writes data to standard output and notes to standard error, both adapted to the terminal. A
//! reader that has gone ends the program quietly.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

use crate::errors;
use crate::failure::{Failure, Result};
use crate::render::clock::Clock;
use crate::render::style::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum ColorWhen {
    /// On a capable terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The appearance of output.
#[derive(Debug, Clone)]
pub struct Screen {
    /// Whether standard output has colors.
    pub colors: bool,
    /// Whether standard error has colors.
    pub talk_colors: bool,
    /// Width of the terminal; `None` if standard output is not a terminal.
    pub width: Option<usize>,
    /// Height of the terminal, if known.
    pub height: Option<usize>,
    pub ascii: bool,
    /// Whether to leave out notes.
    pub quiet: bool,
    /// Whether to write errors as JSON.
    pub json: bool,
    pub clock: Clock,
}

impl Screen {
    /// Detects the properties of the standard streams.
    #[must_use]
    pub fn detect(
        when: ColorWhen,
        ascii: bool,
        quiet: bool,
        json: bool,
        zone: Option<String>,
    ) -> Self {
        let stdout = std::io::stdout();
        let is_terminal = stdout.is_terminal();
        let size = if is_terminal { terminal_size(&stdout) } else { None };
        let (width, height) = size.unzip();
        Self {
            colors: use_colors(when, is_terminal, &variable, is_dumb()),
            talk_colors: use_colors(when, std::io::stderr().is_terminal(), &variable, is_dumb()),
            width,
            height: height.filter(|lines| *lines > 0),
            ascii: ascii || is_on(variable("GPOOL_ASCII")),
            quiet,
            json,
            clock: Clock::of(zone),
        }
    }

    /// Whether standard output is a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.width.is_some()
    }

    /// Writes data to standard output.
    ///
    /// # Errors
    /// The reader has gone, or the output can't be written.
    pub fn data(&self, text: &str) -> Result<()> {
        self.raw(self.fit(text).as_bytes())
    }

    /// Writes bytes to standard output as they are.
    pub fn raw(&self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| not_written(&e))
    }

    /// Writes a note to standard error, unless quiet. Adds a newline.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.talk(text);
        }
    }

    /// Shows progress on a terminal, in a line that the next call replaces.
    pub fn progress(&self, text: &str) {
        let mut out = std::io::stderr().lock();
        if !self.quiet && out.is_terminal() {
            let _ = write!(out, "\r{}\x1b[K", self.fit(text)).and_then(|()| out.flush());
        }
    }

    /// Writes a warning to standard error.
    pub fn warn(&self, text: &str) {
        self.talk(&format!("{} {text}", Style::Warn.paint("warning:", self.talk_colors)));
    }

    /// Writes a failure to standard error.
    pub fn fail(&self, failure: &Failure) {
        let text = if self.json { failure.json() } else { failure.text(self.talk_colors) };
        if !text.is_empty() {
            self.talk(text.trim_end());
        }
    }

    /// Writes to standard error; if its reader has gone, only the message is lost.
    fn talk(&self, text: &str) {
        let _ = writeln!(std::io::stderr().lock(), "{}", self.fit(text));
    }

    fn fit<'t>(&self, text: &'t str) -> std::borrow::Cow<'t, str> {
        if self.ascii { to_ascii(text).into() } else { text.into() }
    }
}

/// The failure of a write to standard output.
#[must_use]
pub fn not_written(error: &std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        return Failure::pipe_closed();
    }
    Failure::new(errors::NOT_WRITTEN, format!("can't write to standard output: {error}"))
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn is_on(value: Option<OsString>) -> bool {
    value.is_some_and(|value| value != *"0")
}

/// Whether the terminal can't move the cursor.
#[must_use]
pub fn is_dumb() -> bool {
    variable("TERM").is_some_and(|term| term == *"dumb")
}

/// Whether the locale declares a terminal without Unicode.
#[must_use]
pub fn is_without_unicode() -> bool {
    is_narrow(&variable)
}

/// Whether the variables name a locale, and its character set is not UTF-8 (POSIX, 8.2).
pub fn is_narrow(variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
    locale.is_some_and(|locale| {
        let name = locale.to_string_lossy().to_ascii_lowercase();
        !name.contains("utf-8") && !name.contains("utf8")
    })
}

/// Whether to use colors, from the flag, the kind of stream, and environment variables.
pub fn use_colors(
    when: ColorWhen,
    is_terminal: bool,
    variable: &dyn Fn(&str) -> Option<OsString>,
    is_dumb: bool,
) -> bool {
    match when {
        ColorWhen::Always => true,
        ColorWhen::Never => false,
        // Its value does not matter, see no-color.org.
        ColorWhen::Auto if variable("NO_COLOR").is_some() => false,
        ColorWhen::Auto if is_on(variable("CLICOLOR_FORCE")) => true,
        ColorWhen::Auto => is_terminal && !is_dumb,
    }
}

fn terminal_size(stream: &std::io::Stdout) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    // A terminal that does not know its size reports 0.
    let columns = if size.ws_col == 0 { 80 } else { usize::from(size.ws_col) };
    Some((columns, usize::from(size.ws_row)))
}

/// Replaces gpool's own symbols by ASCII; other characters become `?`.
pub fn to_ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => plain.push(c),
            '–' | '—' => plain.push('-'),
            '·' => plain.push('|'),
            '×' => plain.push('x'),
            '…' => plain.push_str("..."),
            '→' => plain.push_str("->"),
            '≤' => plain.push_str("<="),
            '█' | '▇' => plain.push('#'),
            '▁' => plain.push('.'),
            '▏' | '▎' | '▍' | '▌' | '▋' | '▊' | '▉' => plain.push('='),
            '°' => {}
            _ => plain.push('?'),
        }
    }
    plain
}
