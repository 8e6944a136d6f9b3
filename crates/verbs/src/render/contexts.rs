//! Contexts as a list: `gpool context list`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use serde::Serialize;

/// A context, without its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContextRow {
    pub name: String,
    /// The address; `None` for the servers of this machine.
    pub server: Option<String>,
    /// Whether commands use it.
    pub current: bool,
}

pub const CONTEXTS: Noun<ContextRow> = Noun {
    columns: COLUMNS,
    table: &["current", "name", "server"],
    wide: &["current", "name", "server"],
    name: |context| context.name.clone(),
    keys: || ["current", "name", "server"].map(str::to_owned).to_vec(),
};

const COLUMNS: &[Column<ContextRow>] = &[
    Column {
        name: "current",
        head: "IN USE",
        cell: |context, _| Cell::new(if context.current { "*" } else { "" }),
    },
    Column { name: "name", head: "NAME", cell: |context, _| Cell::new(&context.name) },
    Column {
        name: "server",
        head: "SERVER",
        cell: |context, _| Cell::new(context.server.as_deref().unwrap_or("this machine")),
    },
];
