//! Formats of letters with widths, as in `%.10Y %i`.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};

/// The letters of a command.
pub struct Letters {
    /// The command.
    pub command: &'static str,
    /// Its letters, for the message about another one.
    pub known: &'static str,
}

/// The letters of a format.
pub fn letters(format: &str) -> Vec<char> {
    let after = format.split('%').skip(1);
    let letter = |part: &str| part.chars().find(|c| !c.is_ascii_digit() && !['.', '#'].contains(c));
    after.filter_map(letter).collect()
}

impl Letters {
    /// Adds a line in a format; `%#P` takes the width that the column needs.
    ///
    /// # Errors
    /// There is no such letter.
    pub fn line(
        &self,
        text: &mut String,
        format: &str,
        width_of: impl Fn(char) -> usize,
        of: impl Fn(char) -> Option<String>,
    ) -> Result<()> {
        let mut rest = format.chars().peekable();
        while let Some(c) = rest.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let is_right = rest.next_if_eq(&'.').is_some();
            let fits = rest.next_if_eq(&'#').is_some();
            let mut width = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                width.push(digit);
            }
            let letter = rest.next().unwrap_or(' ');
            let Some(value) = of(letter) else {
                let what = format!("{} of gpool has no %{letter}", self.command);
                return Err(
                    Failure::new(errors::BAD_COLUMN, what).why(format!("there are {}", self.known))
                );
            };
            let n_chars = value.chars().count();
            let width = if fits { width_of(letter) } else { width.parse().unwrap_or(n_chars) };
            let width = width.min(1000);
            let value: String = value.chars().take(width).collect();
            let _ = match is_right {
                true => write!(text, "{value:>width$}"),
                false => write!(text, "{value:<width$}"),
            };
        }
        text.push('\n');
        Ok(())
    }
}
