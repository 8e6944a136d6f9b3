//! The tables of Slurm's accounting commands: aligned under rules, or with a delimiter.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::ParsedArgs;

/// A field: its name, its default width, whether it is left-aligned, and its content. A head that
/// differs from the name follows it: `DefaultQOS=Def QOS`.
pub type Field<C> = (&'static str, usize, bool, C);

fn name<C>(field: &Field<C>) -> &'static str {
    field.0.split('=').next().unwrap_or_default()
}

fn head<C>(field: &Field<C>) -> &'static str {
    field.0.split('=').next_back().unwrap_or_default()
}

/// A field that a format names, with its width and alignment there.
pub struct Picked<C: 'static> {
    field: &'static Field<C>,
    width: usize,
    is_left: bool,
}

/// Parses a format: `JobID,User%-12`. Names may be cut, as in Slurm, and leave out blanks.
pub fn picked<C>(
    command: &str,
    format: &str,
    fields: &'static [Field<C>],
) -> Result<Vec<Picked<C>>> {
    let mut found = Vec::new();
    for name in format.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if name.eq_ignore_ascii_case("all") {
            let all = fields.iter().map(|field| Picked { field, width: field.1, is_left: field.2 });
            found.extend(all);
            continue;
        }
        let (written, width) = name.split_once('%').unwrap_or((name, ""));
        let is = |field: &&Field<C>, length: usize| {
            let known = self::name(field).replace(' ', "");
            let cut = known.get(..length.min(known.len()));
            cut.is_some_and(|cut| cut.eq_ignore_ascii_case(written))
        };
        let whole = fields.iter().find(|field| is(field, usize::MAX));
        let Some(field) = whole.or_else(|| fields.iter().find(|field| is(field, written.len())))
        else {
            let known: Vec<&str> = fields.iter().map(self::name).collect();
            let name = written;
            let what = format!("{command} of gpool has no field {name:?}");
            return Err(Failure::new(errors::BAD_COLUMN, what)
                .why(format!("the choices are {}", known.join(", "))));
        };
        let (is_left, width) = match width.strip_prefix('-') {
            Some(width) => (true, width),
            None => (field.2, width),
        };
        let width = width.parse().ok().filter(|width: &usize| (1..=1000).contains(width));
        found.push(Picked { field, width: width.unwrap_or(field.1), is_left });
    }
    Ok(found)
}

/// The names of all fields, four on a line.
pub fn help_format<C>(fields: &[Field<C>]) -> String {
    let names: Vec<String> = fields.iter().map(|field| format!("{:<20}", name(field))).collect();
    let lines = names.chunks(4).map(|line| format!("{}\n", line.concat().trim_end()));
    lines.collect()
}

/// The table of some rows, as `--noheader`, `--parsable`, `--parsable2` and `--delimiter` request.
pub fn text<C: Copy, R>(
    args: &ParsedArgs,
    picked: &[Picked<C>],
    rows: &[R],
    cell: impl Fn(C, &R) -> String,
) -> String {
    let delimiter = args.value("delimiter").unwrap_or("|");
    let is_open = args.has("parsable2");
    let is_plain = is_open || args.has("parsable");
    let mut text = String::new();
    let mut put = |cells: Vec<String>| match (is_plain, is_open) {
        (true, true) => text.push_str(&format!("{}\n", cells.join(delimiter))),
        (true, false) => text.push_str(&format!("{}{delimiter}\n", cells.join(delimiter))),
        _ => text.push_str(&aligned(&cells, picked)),
    };
    if !args.has("noheader") {
        put(picked.iter().map(|it| head(it.field).to_owned()).collect());
        if !is_plain {
            put(picked.iter().map(|it| "-".repeat(it.width)).collect());
        }
    }
    for row in rows {
        put(picked.iter().map(|it| cell(it.field.3, row)).collect());
    }
    text
}

fn aligned<C>(cells: &[String], picked: &[Picked<C>]) -> String {
    let mut line = String::new();
    for (text, Picked { width, is_left, .. }) in cells.iter().zip(picked) {
        let mut cut: String = text.chars().take(*width).collect();
        if cut.len() < text.len() {
            // As Slurm marks a cut.
            cut.pop();
            cut.push('+');
        }
        let _ = match is_left {
            true => write!(line, "{cut:<width$} "),
            false => write!(line, "{cut:>width$} "),
        };
    }
    line.push('\n');
    line
}
