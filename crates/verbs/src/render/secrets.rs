//! Secrets as a list: `gpool secret list`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use gpool_wire::Secret;

pub const SECRETS: Noun<Secret> = Noun {
    columns: COLUMNS,
    table: &["name", "user", "set", "bytes"],
    wide: &["name", "user", "set", "bytes", "fault"],
    name: |secret| secret.name.clone(),
    keys: gpool_wire::keys::keys::<Secret>,
};

const COLUMNS: &[Column<Secret>] = &[
    Column { name: "name", head: "NAME", cell: |secret, _| Cell::new(&secret.name) },
    Column { name: "user", head: "USER", cell: |secret, _| Cell::new(&secret.user) },
    Column {
        name: "set",
        head: "SET",
        cell: |secret, view| {
            let set_at = secret.set_at.map(|at| view.clock.full(at));
            Cell::new(&set_at.unwrap_or_else(|| "damaged".to_owned()))
        },
    },
    Column {
        name: "bytes",
        head: "BYTES",
        cell: |secret, _| {
            let bytes = secret.bytes.map(|bytes| bytes.to_string());
            Cell::new(bytes.as_deref().unwrap_or(NOTHING))
        },
    },
    Column {
        name: "fault",
        head: "FAULT",
        cell: |secret, _| Cell::new(secret.fault.as_deref().unwrap_or("")),
    },
];
