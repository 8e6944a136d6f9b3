//! The list of notifications: `gpool notify`.

use gpool_cli::render::list::{Column, Noun};
use gpool_cli::render::style::Style;
use gpool_cli::render::table::Cell;
use gpool_wire::Notification;

/// Notifications that wait to be sent or were given up.
pub const NOTIFICATIONS: Noun<Notification> = Noun {
    columns: COLUMNS,
    table: &["job", "event", "to", "tries", "next", "why"],
    wide: &["id", "job", "user", "event", "at", "to", "tries", "next", "why"],
    name: |message| message.id.clone(),
    keys: gpool_wire::keys::keys::<Notification>,
};

const COLUMNS: &[Column<Notification>] = &[
    Column { name: "id", head: "ID", cell: |message, _| Cell::new(&message.id) },
    Column {
        name: "job",
        head: "JOB",
        cell: |message, _| Cell::new(message.payer.as_ref().unwrap_or(&message.job)),
    },
    Column { name: "user", head: "USER", cell: |message, _| Cell::new(&message.user) },
    Column {
        name: "event",
        head: "EVENT",
        cell: |message, _| Cell::new(message.kind.trim_start_matches("job.")),
    },
    Column {
        name: "at",
        head: "AT",
        cell: |message, view| Cell::new(&view.clock.second(message.at, view.now)),
    },
    Column { name: "to", head: "TO", cell: |message, _| Cell::new(&message.to) },
    Column {
        name: "tries",
        head: "TRIES",
        cell: |message, _| Cell::new(&message.n_attempts.to_string()),
    },
    Column {
        name: "next",
        head: "NEXT TRY",
        cell: |message, view| match message.next_at {
            Some(at) => Cell::new(&view.clock.second(at, view.now)),
            None => Cell::new("given up").styled(Style::Bad),
        },
    },
    Column {
        name: "why",
        head: "WHY",
        cell: |message, _| Cell::new(message.why.as_deref().unwrap_or("")),
    },
];
