//! The formats of `--format` and `--Format` that Slurm's list commands share: `%.18i %j` names
//! columns by letter, `JobID:.10,Name:|` by name. As in Slurm, an unknown letter or name is a note
//! and never ends the command.

use std::fmt::Write as _;

use gpool_cli::foreign::flag::ParsedArgs;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;

/// A column: letter of `--format` or `\0`, name of `--Format` or nothing, head, content, and the
/// text for no value.
pub struct Column<C>(pub char, pub &'static str, pub &'static str, pub C, pub &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// The width of each content.
    Own,
    /// The width of the widest content.
    Fitting,
    /// Exactly as many characters.
    Exact(usize),
}

/// A part of a line: text, or a column.
pub enum Part<C: 'static> {
    /// Text between columns.
    Text(String),
    Column {
        column: &'static Column<C>,
        width: Width,
        /// Whether it is aligned to the right.
        is_right: bool,
    },
}

pub struct Format<C: 'static> {
    pub parts: Vec<Part<C>>,
    /// Its letters or names that Slurm does not have either.
    pub unknown: Vec<String>,
}

/// The default width of columns that `--Format` names.
const NAMED_WIDTH: usize = 20;

const WIDTH_MAX: usize = 1000;

impl<C> Format<C> {
    fn empty() -> Self {
        Self { parts: Vec::new(), unknown: Vec::new() }
    }

    /// Parses `%.18i %9P`: a point aligns to the right, a number is the width, and `#` fits the
    /// width to the content. `%all` is every column. An unknown letter stays as it is.
    #[must_use]
    pub fn by_letters(text: &str, columns: &'static [Column<C>]) -> Self {
        if text.trim() == "%all" {
            return Self::all(columns);
        }
        let mut format = Self::empty();
        let mut literal = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            literal.push_str(before);
            let written = after.trim_start_matches(['.', '#']);
            let written = written.trim_start_matches(|c: char| c.is_ascii_digit());
            let flags = &after[..after.len() - written.len()];
            let letter = written.chars().next();
            rest = &written[letter.map_or(0, char::len_utf8)..];
            let found = columns.iter().find(|column| column.0 != '\0' && Some(column.0) == letter);
            let Some(column) = found else {
                literal.push('%');
                match letter {
                    Some('%') => {}
                    letter => {
                        literal.push_str(flags);
                        literal.extend(letter);
                        format.unknown.push(letter.map(String::from).unwrap_or_default());
                    }
                }
                continue;
            };
            format.text(&mut literal);
            let number = flags.trim_start_matches(['.', '#']);
            let width = if flags.contains('#') { Width::Fitting } else { width(number) };
            format.parts.push(Part::Column { column, width, is_right: flags.contains('.') });
        }
        literal.push_str(rest);
        format.text(&mut literal);
        format
    }

    /// Parses `JobID:.10,Name:|`: after the colon come a point that aligns to the right, a width
    /// and a text that ends the column. Unknown names are left out.
    #[must_use]
    pub fn by_names(text: &str, columns: &'static [Column<C>]) -> Self {
        let mut format = Self::empty();
        for written in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let (name, after) = match written.split_once(':') {
                Some((name, after)) => (name, Some(after)),
                None => (written, None),
            };
            let is = |column: &&Column<C>| column.1.eq_ignore_ascii_case(name);
            let Some(column) = columns.iter().filter(|column| !column.1.is_empty()).find(is) else {
                format.unknown.push(name.to_owned());
                continue;
            };
            let is_right = after.is_some_and(|after| after.starts_with('.'));
            let after = after.map(|after| after.strip_prefix('.').unwrap_or(after));
            let suffix = after.map(|it| it.trim_start_matches(|c: char| c.is_ascii_digit()));
            let suffix = suffix.unwrap_or_default();
            let width = match after {
                None => Width::Exact(NAMED_WIDTH),
                Some(after) => width(&after[..after.len() - suffix.len()]),
            };
            format.parts.push(Part::Column { column, width, is_right });
            format.text(&mut suffix.to_owned());
        }
        format
    }

    /// All columns with a letter, separated by `|`.
    fn all(columns: &'static [Column<C>]) -> Self {
        let mut format = Self::empty();
        for column in columns.iter().filter(|column| column.0 != '\0') {
            if !format.parts.is_empty() {
                format.text(&mut "|".to_owned());
            }
            format.parts.push(Part::Column { column, width: Width::Own, is_right: false });
        }
        format
    }

    /// The letters or the names of all columns, several on a line.
    #[must_use]
    pub fn help(columns: &[Column<C>], by_name: bool) -> String {
        let (n, width) = if by_name { (4, 20) } else { (8, 6) };
        let word = |column: &Column<C>| match by_name {
            true => Some(column.1.to_owned()).filter(|name| !name.is_empty()),
            false => Some(format!("%{}", column.0)).filter(|_| column.0 != '\0'),
        };
        let words: Vec<String> = columns.iter().filter_map(word).collect();
        let padded = |words: &[String]| -> String {
            words.iter().map(|word| format!("{word:<width$}")).collect()
        };
        words.chunks(n).map(|words| format!("{}\n", padded(words).trim_end())).collect()
    }

    /// The help that `--helpformat` or `--helpFormat` requests.
    #[must_use]
    pub fn requested_help(args: &ParsedArgs, columns: &[Column<C>]) -> Option<String> {
        let by_name = args.has("helpFormat");
        (by_name || args.has("helpformat")).then(|| Self::help(columns, by_name))
    }

    /// Names the unknown letters or names in a note, as Slurm does.
    pub fn say_unknown(&self, command: &str, session: &Session) {
        for unknown in &self.unknown {
            let what = format!("{command}: error: Invalid job format specification: {unknown}");
            session.screen.note(&safe(&what));
        }
    }

    fn text(&mut self, literal: &mut String) {
        if !literal.is_empty() {
            self.parts.push(Part::Text(std::mem::take(literal)));
        }
    }

    pub fn columns(&self) -> impl Iterator<Item = &'static Column<C>> {
        self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Column { column, .. } => Some(*column),
        })
    }

    /// The heads, unless they are left out, and a line for each row.
    pub fn lines<R>(
        &self,
        with_heads: bool,
        rows: &[R],
        cell: impl Fn(&C, &R) -> Option<String>,
    ) -> String {
        let of = |column: &Column<C>, row: &R| {
            let text = cell(&column.3, row).unwrap_or_else(|| column.4.to_owned());
            safe(&text).into_owned()
        };
        let widths: Vec<usize> =
            self.parts.iter().map(|part| self.fitting(part, rows, of)).collect();
        let mut text = String::new();
        if with_heads {
            self.line(&mut text, &widths, |column| column.2.to_owned());
        }
        for row in rows {
            self.line(&mut text, &widths, |column| of(column, row));
        }
        text
    }

    /// The width of a column that fits its content; 0 for others.
    fn fitting<R>(
        &self,
        part: &Part<C>,
        rows: &[R],
        of: impl Fn(&Column<C>, &R) -> String,
    ) -> usize {
        let Part::Column { column, width: Width::Fitting, .. } = part else { return 0 };
        let texts = rows.iter().map(|row| of(column, row).chars().count());
        texts.max().unwrap_or(0).max(column.2.len())
    }

    fn line(&self, text: &mut String, widths: &[usize], of: impl Fn(&Column<C>) -> String) {
        for (part, fitting) in self.parts.iter().zip(widths) {
            match part {
                Part::Text(literal) => text.push_str(literal),
                Part::Column { column, width, is_right } => {
                    let value = of(column);
                    let width = match width {
                        Width::Own => value.chars().count(),
                        Width::Fitting => *fitting,
                        Width::Exact(width) => *width,
                    };
                    let cut: String = value.chars().take(width).collect();
                    let _ = match is_right {
                        true => write!(text, "{cut:>width$}"),
                        false => write!(text, "{cut:<width$}"),
                    };
                }
            }
        }
        text.push('\n');
    }
}

/// The width that digits write; no digits and 0 mean the width of the content.
fn width(digits: &str) -> Width {
    match digits.parse::<usize>() {
        Ok(0) => Width::Own,
        Err(_) if digits.is_empty() => Width::Own,
        Ok(width) => Width::Exact(width.min(WIDTH_MAX)),
        Err(_) => Width::Exact(WIDTH_MAX),
    }
}
