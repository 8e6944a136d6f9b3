//! Tokens as a list: `gpool token list`. Network users: `gpool user map`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::NOTHING;
use gpool_wire::{NetworkUser, Token};

pub const TOKENS: Noun<Token> = Noun {
    columns: COLUMNS,
    table: &["id", "name", "user", "scope", "expires"],
    wide: &["id", "name", "user", "scope", "created", "by", "expires"],
    name: |token| token.id.clone(),
    keys: gpool_wire::keys::keys::<Token>,
};

const COLUMNS: &[Column<Token>] = &[
    Column { name: "id", head: "ID", cell: |token, _| Cell::new(&token.id) },
    Column {
        name: "name",
        head: "NAME",
        cell: |token, _| Cell::new(if token.name.is_empty() { NOTHING } else { &token.name }),
    },
    Column { name: "user", head: "USER", cell: |token, _| Cell::new(&token.user) },
    Column { name: "scope", head: "SCOPE", cell: |token, _| Cell::new(token.scope.as_str()) },
    Column {
        name: "created",
        head: "CREATED",
        cell: |token, view| Cell::new(&view.clock.full(token.created_at)),
    },
    Column { name: "by", head: "BY", cell: |token, _| Cell::new(&token.created_by) },
    Column {
        name: "expires",
        head: "EXPIRES",
        cell: |token, view| {
            let end = token.expires_at.map(|end| view.clock.full(end));
            Cell::new(&end.unwrap_or_else(|| "never".to_owned()))
        },
    },
];

pub const NETWORK_USERS: Noun<NetworkUser> = Noun {
    columns: USER_COLUMNS,
    table: &["name", "user", "since"],
    wide: &["name", "user", "since", "issuer", "subject"],
    name: |user| user.name.clone(),
    keys: gpool_wire::keys::keys::<NetworkUser>,
};

const USER_COLUMNS: &[Column<NetworkUser>] = &[
    Column { name: "name", head: "NETWORK USER", cell: |user, _| Cell::new(&user.name) },
    Column {
        name: "user",
        head: "SYSTEM USER",
        cell: |user, _| Cell::new(user.user.as_deref().unwrap_or(NOTHING)),
    },
    Column {
        name: "since",
        head: "SIGNED IN SINCE",
        cell: |user, view| {
            let since = user.since.map(|since| view.clock.full(since));
            Cell::new(&since.unwrap_or_else(|| NOTHING.to_owned()))
        },
    },
    Column {
        name: "issuer",
        head: "PROVIDER",
        cell: |user, _| Cell::new(user.issuer.as_deref().unwrap_or(NOTHING)),
    },
    Column {
        name: "subject",
        head: "ID THERE",
        cell: |user, _| Cell::new(user.subject.as_deref().unwrap_or(NOTHING)),
    },
];
