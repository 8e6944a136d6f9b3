//! Changes as a list: `gpool audit`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_wire::AuditEntry;
use serde_json::Value;

/// Changes.
pub const ENTRIES: Noun<AuditEntry> = Noun {
    columns: COLUMNS,
    table: &["time", "user", "origin", "action", "objects", "change"],
    wide: &["id", "time", "user", "origin", "token", "action", "objects", "change"],
    name: |entry| entry.id.to_string(),
    keys: gpool_wire::schema::fields::<AuditEntry>,
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

/// Objects in the table; JSON has all of them.
const OBJECTS_SHOWN: usize = 3;

fn objects(entry: &AuditEntry) -> String {
    let shown = entry.objects.iter().take(OBJECTS_SHOWN).map(String::as_str);
    let mut text = shown.collect::<Vec<_>>().join(" ");
    if entry.objects.len() > OBJECTS_SHOWN {
        text.push_str(&format!(" and {} more", entry.objects.len() - OBJECTS_SHOWN));
    }
    text
}

/// The changed fields, `limit 4 -> 8`, or else the request.
fn change(entry: &AuditEntry) -> String {
    let fields = |value: &Option<Value>| value.as_ref().and_then(Value::as_object).cloned();
    let before = fields(&entry.before).unwrap_or_default();
    if let Some(after) = fields(&entry.after) {
        let field = |(name, value): (&String, &Value)| match before.get(name) {
            Some(old) => format!("{name} {} -> {}", short(old), short(value)),
            None => format!("{name} {}", short(value)),
        };
        return after.iter().map(field).collect::<Vec<_>>().join(", ");
    }
    entry.request.as_ref().map(short).unwrap_or_default()
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
