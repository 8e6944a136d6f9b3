//! Values of array elements from files: lines, JSON, CSV.

use std::io::Read as _;

use gpool_wire::{JobCreate, ParamTable, catalogue};
use serde_json::Value;

use crate::args::array_flags::ArrayFlags;
use crate::failure::{Failure, Result};

/// Largest file of values in bytes: what a request can carry.
const FILE_MAX: u64 = 15 << 20;

/// Adds the values from the flags to a job.
pub fn fill(job: &mut JobCreate, flags: ArrayFlags) -> Result<()> {
    job.params = flags.param;
    if let Some(path) = &flags.each_line {
        job.items = Some(lines(&read("--each-line", path)?).map(Value::from).collect());
    }
    if let Some(path) = &flags.array_from {
        let text = read("--array-from", path)?;
        let items = items(&text).map_err(|why| bad("--array-from", path, &why))?;
        job.items.get_or_insert_default().extend(items);
    }
    if let Some(path) = &flags.param_file {
        let table = table(&read("--param-file", path)?);
        job.table = Some(table.map_err(|why| bad("--param-file", path, &why))?);
    }
    if flags.each_line.is_some() && flags.array_from.is_some() {
        let what = "--each-line and --array-from can't be given together";
        return Err(Failure::new(catalogue::INVALID, what));
    }
    Ok(())
}

fn bad(flag: &str, path: &str, why: &str) -> Failure {
    let path = if path == "-" { "standard input" } else { path };
    Failure::new(catalogue::INVALID, format!("{flag}: {path}, {why}"))
}

fn read(flag: &str, path: &str) -> Result<String> {
    let refused = |why: String| Failure::new(catalogue::INVALID, format!("{flag}: {why}"));
    let mut bytes = Vec::new();
    let read = match path {
        "-" => std::io::stdin().take(FILE_MAX + 1).read_to_end(&mut bytes),
        path => std::fs::File::open(path)
            .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes)),
    };
    read.map_err(|error| refused(format!("can't read {path}: {error}")))?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(refused(format!("{path} has more than {} MiB; split it", FILE_MAX >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        refused(format!("{path}, line {line}: it is not UTF-8"))
    })?;
    if text.trim().is_empty() {
        return Err(refused(format!("{path} is empty, so the array would have no elements")));
    }
    Ok(text)
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
}

/// Parses a JSON array, or one JSON value per line.
pub fn items(text: &str) -> std::result::Result<Vec<Value>, String> {
    if text.trim_start().starts_with('[') && text.trim_end().ends_with(']') {
        if let Ok(items) = serde_json::from_str::<Vec<Value>>(text) {
            return Ok(items);
        }
        // Several lines may each be an array; a single line must be valid JSON.
        if text.trim_end().lines().count() == 1 {
            let error = serde_json::from_str::<Vec<Value>>(text).err();
            return Err(error.map_or_else(String::new, |error| format!("it is not JSON: {error}")));
        }
    }
    let line = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            format!(
                "line {}: it is not JSON ({error}); write [\"a\", \"b\"], or one item per line",
                at + 1
            )
        })
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(line).collect()
}

/// Parses CSV with a header; fields may be quoted, with `""` for a quote.
pub fn table(text: &str) -> std::result::Result<ParamTable, String> {
    let mut rows = rows(text)?.into_iter();
    let (_, names) = rows.next().ok_or("it is empty")?;
    let names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
    let mut table = ParamTable { names, rows: Vec::new() };
    for (line, row) in rows {
        if row.len() != table.names.len() {
            return Err(format!(
                "line {line}: it has {} values, and the first line has {} names: {}",
                row.len(),
                table.names.len(),
                table.names.join(",")
            ));
        }
        table.rows.push(row);
    }
    if table.rows.is_empty() {
        return Err("it has a header and no rows; write lr,seed in one line and 0.1,1 in the next"
            .to_owned());
    }
    Ok(table)
}

type Rows = Vec<(usize, Vec<String>)>;

fn rows(text: &str) -> std::result::Result<Rows, String> {
    let mut rows = Rows::new();
    let mut chars = text.chars().peekable();
    let mut line = 1;
    while chars.peek().is_some() {
        let first = line;
        let mut row = Vec::new();
        loop {
            let mut field = String::new();
            if chars.next_if_eq(&'"').is_some() {
                loop {
                    match chars.next() {
                        None => {
                            return Err(format!("line {first}: a quotation mark is not closed"));
                        }
                        Some('"') if chars.next_if_eq(&'"').is_some() => field.push('"'),
                        Some('"') => break,
                        Some(c) => {
                            line += usize::from(c == '\n');
                            field.push(c);
                        }
                    }
                }
            }
            while let Some(c) = chars.next_if(|c| *c != ',' && *c != '\n') {
                field.push(c);
            }
            if chars.peek().is_none_or(|c| *c == '\n') && field.ends_with('\r') {
                field.pop();
            }
            row.push(field);
            if chars.next_if_eq(&',').is_none() {
                break;
            }
        }
        chars.next();
        line += 1;
        if row != [""] {
            rows.push((first, row));
        }
    }
    Ok(rows)
}
