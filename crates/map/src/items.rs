//! The items of a map: read from lines, JSON, CSV or names of files, and stored as lines of JSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde_json::{Map, Value};

use crate::message::Item;

/// The form of a list of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// One text per line.
    Lines,
    /// One JSON value per line.
    Jsonl,
    /// Comma-separated values below a header; an item is an object.
    Csv,
}

impl Form {
    /// The form by the name of a file.
    #[must_use]
    pub fn of_path(path: &Path) -> Self {
        match path.extension().and_then(|it| it.to_str()) {
            Some("jsonl" | "ndjson") => Self::Jsonl,
            Some("csv") => Self::Csv,
            _ => Self::Lines,
        }
    }
}

/// The longest item in bytes.
const ITEM_MAX: usize = 1 << 20;

/// Copies a list into a file of JSON lines; returns the number of items.
///
/// # Errors
/// The line that is wrong, or an error of a file.
pub fn copy(from: impl Read, form: Form, to: &Path) -> Result<u64, String> {
    let out = File::create(to).map_err(|error| format!("can't write {}: {error}", to.display()))?;
    let mut out = BufWriter::new(out);
    let mut n_items = 0;
    let mut sink = |value: &Value, line: u64| -> Result<(), String> {
        let text = value.to_string();
        if text.len() > ITEM_MAX {
            return Err(format!("line {line}: the item has more than {} MiB", ITEM_MAX >> 20));
        }
        n_items += 1;
        writeln!(out, "{text}").map_err(|error| format!("can't write {}: {error}", to.display()))
    };
    match form {
        Form::Csv => read_csv(from, &mut sink)?,
        form => read_lines(BufReader::new(from), form, &mut sink)?,
    }
    let flushed = out.flush().and_then(|()| out.get_ref().sync_data());
    flushed.map_err(|error| format!("can't write {}: {error}", to.display()))?;
    Ok(n_items)
}

type ItemSink<'a> = &'a mut dyn FnMut(&Value, u64) -> Result<(), String>;

fn read_lines(mut from: impl BufRead, form: Form, sink: ItemSink<'_>) -> Result<(), String> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = from.by_ref().take(ITEM_MAX as u64 + 2).read_until(b'\n', &mut line);
        if read.map_err(|error| format!("line {number}: {error}"))? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if text.len() > ITEM_MAX {
            return Err(format!("line {number}: it has more than {} MiB", ITEM_MAX >> 20));
        }
        let text =
            std::str::from_utf8(text).map_err(|_| format!("line {number}: it is not UTF-8"))?;
        if text.trim().is_empty() {
            continue;
        }
        let value = match form {
            Form::Jsonl => serde_json::from_str(text)
                .map_err(|error| format!("line {number}: it is not JSON: {error}"))?,
            _ => Value::String(text.to_owned()),
        };
        sink(&value, number)?;
    }
    Ok(())
}

fn read_csv(from: impl Read, sink: ItemSink<'_>) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().flexible(false).from_reader(from);
    let heads = reader.headers().map_err(|error| format!("the header: {error}"))?.clone();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let line = row.position().map_or(0, csv::Position::line);
        let cells = heads.iter().zip(&row);
        let object: Map<String, Value> =
            cells.map(|(name, cell)| (name.to_owned(), Value::String(cell.to_owned()))).collect();
        sink(&Value::Object(object), line)?;
    }
    Ok(())
}

/// Reads items in order, each once.
pub struct ItemReader {
    lines: io::Lines<BufReader<File>>,
    next: u64,
}

impl ItemReader {
    /// Opens the file that [`copy`] wrote.
    ///
    /// # Errors
    /// It can't be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { lines: BufReader::new(File::open(path)?).lines(), next: 0 })
    }

    /// Reads on to an item, which must come after the one before.
    ///
    /// # Errors
    /// The file has no such item any more.
    pub fn read(&mut self, id: u64) -> io::Result<Item> {
        for line in self.lines.by_ref() {
            let line = line?;
            self.next += 1;
            if self.next == id + 1 {
                let item = serde_json::from_str(&line)?;
                return Ok(Item { id, item });
            }
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("there is no item {id}")))
    }
}
