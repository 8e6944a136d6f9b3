//! Lists in every format: columns for people, JSON, JSON lines, CSV, names. A [`Noun`] describes
//! the items; filters and sort orders use the keys of the JSON, so they are the same for every
//! noun.

mod order;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use gpool_web::{Bars, SavedTable};
use serde::Serialize;
use serde_json::Value;

pub use self::order::natural;
pub use self::order::value_at;
use self::order::{Field, compare, key_named, no_column, plain};
use super::json;
use super::safe::safe;
use super::table::{Cell, Table};
use super::view::View;
use super::words::NOTHING;
use super::yaml;
use crate::args::list::{Format, ListFlags};
use crate::errors;
use crate::failure::{Failure, Result};

pub struct Column<T: 'static> {
    /// The name for `--format`.
    pub name: &'static str,
    pub head: &'static str,
    pub cell: fn(&T, &View<'_>) -> Cell,
}

/// A kind of item in lists.
pub struct Noun<T: 'static> {
    pub columns: &'static [Column<T>],
    /// The columns of `-o table`.
    pub table: &'static [&'static str],
    /// The columns of `-o wide`.
    pub wide: &'static [&'static str],
    /// The name or id of an item.
    pub name: fn(&T) -> String,
    /// The keys of an item's JSON; those of a group with its name: `run.started_at`.
    pub keys: fn() -> Vec<String>,
}

pub struct Row<T> {
    pub item: T,
    /// The JSON from the API.
    pub json: Value,
}

/// A selected column or JSON key.
enum Picked<'a, T: 'static> {
    Column(&'a Column<T>),
    Key(String),
}

/// Filters, sorts and limits a list as the flags request.
///
/// # Errors
/// The items have no such key.
pub fn select<T: Serialize>(
    noun: &Noun<T>,
    items: Vec<T>,
    flags: &ListFlags,
) -> Result<Vec<Row<T>>> {
    let mut rows = Vec::with_capacity(items.len());
    for item in items {
        // Types of the API have string keys only, so this can't fail.
        let json = serde_json::to_value(&item).unwrap_or_default();
        rows.push(Row { item, json });
    }
    let keys = (noun.keys)();
    for filter in &flags.filter {
        let Some((key, wanted)) = filter.split_once('=') else {
            return Err(Failure::new(errors::BAD_COLUMN, format!("{filter:?} is not KEY=VALUE"))
                .tip("--filter state=pending"));
        };
        let field = Field::find(noun, &keys, key)?;
        rows.retain(|row| wanted.split(',').any(|wanted| matches(&field.of(row), wanted)));
    }
    if let Some(key) = flags.sort.as_deref() {
        let (key, is_turned) = key.strip_prefix('-').map_or((key, false), |key| (key, true));
        let field = Field::find(noun, &keys, key)?;
        let mut keyed: Vec<(Value, Row<T>)> =
            rows.into_iter().map(|row| (field.of(&row), row)).collect();
        keyed.sort_by(|(a, _), (b, _)| {
            let order = compare(a, b);
            if is_turned { order.reverse() } else { order }
        });
        rows = keyed.into_iter().map(|(_, row)| row).collect();
    }
    if let Some(limit) = flags.limit {
        rows.truncate(limit);
    }
    Ok(rows)
}

fn matches(value: &Value, wanted: &str) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| matches(value, wanted)),
        Value::Null => wanted.is_empty() || wanted == "null",
        Value::String(text) => text == wanted,
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => plain(value) == wanted,
    }
}

impl<T: Serialize> Noun<T> {
    /// The rows in a format. `footer` is for people only.
    ///
    /// # Errors
    /// `--format` names an unknown column.
    pub fn text(
        &self,
        rows: &[Row<T>],
        form: Format,
        columns: &[String],
        look: &Appearance<'_>,
    ) -> Result<String> {
        Ok(match form {
            Format::Table | Format::Wide | Format::Html => {
                let usual = if form == Format::Table { self.table } else { self.wide };
                let mut picked = self.pick(columns, usual, true)?;
                if columns.is_empty() {
                    picked.retain(|picked| !is_vacant(picked, rows, &look.view));
                }
                if form == Format::Html {
                    return Ok(page(rows, &picked, look));
                }
                let mut text = table(rows, &picked, look, self.name);
                if columns.is_empty() && !look.footer.is_empty() {
                    let _ = writeln!(text, "{}", look.footer);
                }
                text
            }
            Format::Json => json::list(&rows.iter().map(|row| &row.item).collect::<Vec<_>>()),
            Format::Yaml => {
                yaml::of_json(&json::list(&rows.iter().map(|row| &row.item).collect::<Vec<_>>()))
            }
            Format::Jsonl => json::lines(&rows.iter().map(|row| &row.item).collect::<Vec<_>>()),
            Format::Csv | Format::Tsv => {
                let usual = self.every_column();
                let usual: Vec<&str> = usual.iter().map(String::as_str).collect();
                let picked = self.pick(columns, &usual, false)?;
                separated(rows, &picked, look, form)
            }
            Format::Name => {
                rows.iter().map(|row| format!("{}\n", safe(&(self.name)(&row.item)))).collect()
            }
        })
    }

    fn pick<'a>(
        &'a self,
        column_names: &'a [String],
        usual: &[&'a str],
        for_people: bool,
    ) -> Result<Vec<Picked<'a, T>>> {
        let asked: Vec<&str> = match column_names {
            [] => usual.to_vec(),
            asked => asked.iter().map(|name| name.trim()).collect(),
        };
        let keys = (self.keys)();
        let is_key = |name: &str| keys.iter().any(|key| key == name);
        let pick = |name: &'a str| {
            let column = self.columns.iter().find(|column| column.name == name);
            match column {
                Some(column) if for_people || !is_key(name) => Ok(Picked::Column(column)),
                _ => {
                    key_named(&keys, name).map(|key| Picked::Key(key.to_owned())).ok_or_else(|| {
                        let known: Vec<&str> =
                            self.columns.iter().map(|column| column.name).collect();
                        no_column("column", name, &known)
                    })
                }
            }
        };
        asked.into_iter().map(pick).collect()
    }
}

impl<T> Noun<T> {
    /// The keys of CSV: first the names and ids, then the columns of `-o wide`, then all others.
    fn every_column(&self) -> Vec<String> {
        let keys = (self.keys)();
        let names = ["id", "name", "node", "index"].map(str::to_owned).into_iter();
        let names = names.filter(|name| keys.contains(name));
        let wide = self.wide.iter().map(|name| (*name).to_owned());
        let mut seen = BTreeSet::new();
        let mut all: Vec<String> = names.chain(wide).chain(keys.iter().cloned()).collect();
        all.retain(|name| seen.insert(name.clone()));
        all
    }
}

/// The appearance of text for people.
pub struct Appearance<'a> {
    /// The reader and the current time.
    pub view: View<'a>,
    /// Width of the terminal, if the output goes to one.
    pub width: Option<usize>,
    pub colors: bool,
    pub footer: &'a str,
    /// The names of rows to mark.
    pub marked: &'a BTreeSet<String>,
    /// The title of a page.
    pub title: &'a str,
    /// The bars beside the rows of a page.
    pub bars: Option<&'a Bars>,
}

/// Columns that are shown only if a row has a value in them.
const OF_SOME: &[&str] = &["params"];

fn is_vacant<T>(picked: &Picked<'_, T>, rows: &[Row<T>], view: &View<'_>) -> bool {
    let Picked::Column(column) = picked else { return false };
    OF_SOME.contains(&column.name)
        && rows.iter().all(|row| (column.cell)(&row.item, view).text().is_empty())
}

fn table<T>(
    rows: &[Row<T>],
    picked: &[Picked<'_, T>],
    look: &Appearance<'_>,
    name: fn(&T) -> String,
) -> String {
    let mut table = Table::new(heads(picked));
    for row in rows {
        let mut cells: Vec<Cell> =
            picked.iter().map(|picked| cell(row, picked, &look.view)).collect();
        if let Some(first) = cells.first_mut().filter(|_| look.marked.contains(&name(&row.item))) {
            *first = first.clone().marked();
        }
        table.push(cells);
    }
    table.render(look.width, look.colors)
}

fn heads<T>(picked: &[Picked<'_, T>]) -> Vec<String> {
    let head = |picked: &Picked<'_, T>| match picked {
        Picked::Column(column) => column.head.to_owned(),
        Picked::Key(key) => key.to_ascii_uppercase(),
    };
    picked.iter().map(head).collect()
}

/// The rows as a page that stands alone.
fn page<T>(rows: &[Row<T>], picked: &[Picked<'_, T>], look: &Appearance<'_>) -> String {
    let texts = |row: &Row<T>| {
        let cells = picked.iter().map(|picked| cell(row, picked, &look.view));
        cells.map(|cell| cell.plain().to_owned()).collect()
    };
    let page = SavedTable {
        title: look.title,
        about: &look.view.clock.full(look.view.now),
        heads: &heads(picked),
        rows: &rows.iter().map(texts).collect::<Vec<_>>(),
        bars: look.bars,
        notes: look.footer,
    };
    page.page()
}

fn cell<T>(row: &Row<T>, picked: &Picked<'_, T>, view: &View<'_>) -> Cell {
    match picked {
        Picked::Column(column) => (column.cell)(&row.item, view),
        Picked::Key(key) => Cell::new(&plain(value_at(&row.json, key))),
    }
}

/// Text with a quote before it if a spreadsheet would compute it as a formula.
/// Source: OWASP, CSV Injection.
#[must_use]
pub fn no_formula(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']) && text.parse::<f64>().is_err();
    if is_formula { format!("'{text}") } else { text.to_owned() }
}

fn separated<T>(
    rows: &[Row<T>],
    picked: &[Picked<'_, T>],
    look: &Appearance<'_>,
    form: Format,
) -> String {
    let separator = if form == Format::Tsv { "\t" } else { "," };
    let field = |text: &str| {
        let text = no_formula(&safe(text));
        if text.contains(['"', ',']) && form == Format::Csv {
            return format!("\"{}\"", text.replace('"', "\"\""));
        }
        text
    };
    let head = picked.iter().map(|picked| match picked {
        Picked::Column(column) => field(column.name),
        Picked::Key(key) => field(key),
    });
    let mut text = head.collect::<Vec<_>>().join(separator);
    text.push('\n');
    for row in rows {
        let fields = picked.iter().map(|picked| match picked {
            Picked::Column(column) => match (column.cell)(&row.item, &look.view).plain() {
                NOTHING => String::new(),
                text => field(text),
            },
            Picked::Key(key) => field(&plain(value_at(&row.json, key))),
        });
        text.push_str(&fields.collect::<Vec<_>>().join(separator));
        text.push('\n');
    }
    text
}
