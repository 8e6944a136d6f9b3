//! Changes as a list: `gpool audit`.

use std::collections::BTreeSet;

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::safe::safe;
use gpool_cli::render::table::Cell;
use gpool_cli::render::view::View;
use gpool_wire::AuditEntry;
use serde_json::Value;

pub const ENTRIES: Noun<AuditEntry> = Noun {
    columns: COLUMNS,
    table: &["time", "user", "origin", "action", "objects", "change"],
    wide: &["id", "time", "user", "origin", "token", "action", "objects", "change"],
    name: |entry| entry.id.to_string(),
    keys: gpool_wire::keys::keys::<AuditEntry>,
};

const COLUMNS: &[Column<AuditEntry>] = &[
    Column { name: "id", head: "ID", cell: |entry, _| Cell::new(&entry.id.to_string()) },
    Column {
        name: "time",
        head: "TIME",
        cell: |entry, view| Cell::new(&view.clock.second(entry.at, view.now)),
    },
    Column {
        name: "user",
        head: "USER",
        cell: |entry, _| Cell::new(entry.network_user.as_ref().unwrap_or(&entry.user)),
    },
    Column { name: "origin", head: "ORIGIN", cell: |entry, _| Cell::new(&entry.origin) },
    Column {
        name: "token",
        head: "TOKEN",
        cell: |entry, _| Cell::new(entry.token.as_deref().unwrap_or_default()),
    },
    Column { name: "action", head: "ACTION", cell: |entry, _| Cell::new(&entry.action) },
    Column { name: "objects", head: "OBJECTS", cell: |entry, _| Cell::new(&objects(entry)) },
    Column { name: "change", head: "CHANGE", cell: |entry, _| Cell::new(&change(entry)) },
];

/// An entry as a line, without a table around it.
pub fn line(entry: &AuditEntry, view: &View<'_>) -> String {
    let cells = [
        view.clock.full(entry.at),
        entry.network_user.as_ref().unwrap_or(&entry.user).clone(),
        entry.origin.clone(),
        entry.action.clone(),
        objects(entry),
        change(entry),
    ];
    let shown: Vec<String> = cells.iter().map(|cell| safe(cell).to_string()).collect();
    shown.join("  ").trim_end().to_owned()
}

/// Objects in the table; JSON has all of them.
const OBJECTS_MAX: usize = 3;

fn objects(entry: &AuditEntry) -> String {
    let shown = entry.objects.iter().take(OBJECTS_MAX).map(String::as_str);
    let mut text = shown.collect::<Vec<_>>().join(" ");
    if entry.objects.len() > OBJECTS_MAX {
        text.push_str(&format!(" and {} more", entry.objects.len() - OBJECTS_MAX));
    }
    text
}

/// The changed fields, `limit 4 -> 8`, or else the request; why it was refused, if it was.
fn change(entry: &AuditEntry) -> String {
    if let Some(code) = &entry.refused {
        let more = entry.n_more.map_or(String::new(), |n_more| format!(", and {n_more} before it"));
        return format!("refused: {code}{more}");
    }
    let mut fields = Vec::new();
    differences(entry.before.as_ref(), entry.after.as_ref(), "", &mut fields);
    if entry.after.is_none() || fields.is_empty() {
        return entry.request.as_ref().map(short).unwrap_or_default();
    }
    fields.join(", ")
}

/// Adds each changed field with its name, those of objects one by one: `gpus_of.h100 2 -> 4`.
fn differences(before: Option<&Value>, after: Option<&Value>, name: &str, to: &mut Vec<String>) {
    let fields = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    match (fields(before), fields(after)) {
        (None, None) if name.is_empty() => {}
        (None, None) => to.push(match (before, after) {
            (None, Some(new)) => format!("{name} {}", short(new)),
            (old, new) => {
                let text = |value: Option<&Value>| value.map_or("none".to_owned(), short);
                format!("{name} {} -> {}", text(old), text(new))
            }
        }),
        (old, new) => {
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in names {
                let inner = match name {
                    // A setting is known by its own name.
                    "" | "settings" => key.clone(),
                    outer => format!("{outer}.{key}"),
                };
                differences(old.get(key), new.get(key), &inner, to);
            }
        }
    }
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}
