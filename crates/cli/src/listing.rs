//! Shared parts of all lists: printing them once, or repeatedly with `--watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_web::Bars;
use gpool_wire::{Time, catalogue};
use serde::Serialize;
use serde_json::Value;

use super::watch;
use crate::args::list::{Format, ListFlags};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::marks::Marks;
use crate::render::list::{Appearance, Noun, Row, select};
use crate::render::view::View;
use crate::render::words::count;
use crate::render::{clock, json};
use crate::session::{AWAY, BACK, Session};

/// The time range of `--since` and `--until`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Between {
    pub since: Option<Time>,
    pub until: Option<Time>,
}

impl Between {
    /// Parses the values of the two flags.
    pub fn read(since: &Option<String>, until: &Option<String>, session: &Session) -> Result<Self> {
        let moment = |flag: &str, text: &Option<String>| -> Result<Option<Time>> {
            let read = |text: &String| session.screen.clock.read(text, clock::now());
            let moment = text.as_ref().map(read).transpose();
            moment.map_err(|why| Failure::new(catalogue::INVALID, format!("{flag}: {why}")))
        };
        Ok(Self { since: moment("--since", since)?, until: moment("--until", until)? })
    }

    /// Whether a moment is in the range.
    #[must_use]
    pub fn has(&self, moment: Time) -> bool {
        self.since.is_none_or(|since| since <= moment)
            && self.until.is_none_or(|until| moment <= until)
    }
}

pub struct Listing<T> {
    /// The rows that the flags select.
    pub rows: Vec<Row<T>>,
    /// The text below the list, for people.
    pub footer: String,
    /// The text above a watched list.
    pub head: String,
    /// The contents of a row whose changes are marked in a watched list.
    pub contents: Option<fn(&T) -> String>,
    /// The names of rows that have changed; [`show`] sets them.
    pub marked: BTreeSet<String>,
    /// The title of a page.
    pub title: String,
    /// The bars beside the rows of a page.
    pub bars: Option<fn(&[&T]) -> Bars>,
}

impl<T> Listing<T> {
    /// Rows, and the text below them.
    #[must_use]
    pub fn new(rows: Vec<Row<T>>, footer: String) -> Self {
        let (head, marked, title) = (String::new(), BTreeSet::new(), "gpool".to_owned());
        Self { rows, footer, head, contents: None, marked, title, bars: None }
    }
}

/// Prints a list; with `--watch`, repeatedly until the user or the reader leaves.
///
/// # Errors
/// `read` fails, or there is no such column.
pub fn show<T: Serialize + Send>(
    noun: &Noun<T>,
    flags: &ListFlags,
    session: &Session,
    mut read: impl FnMut() -> Result<Listing<T>> + Send,
) -> Result {
    let form = flags.form(session.global.json);
    let Some(every) = flags.watch else {
        let listing = read()?;
        let items: Vec<&T> = listing.rows.iter().map(|row| &row.item).collect();
        let bars = listing.bars.filter(|_| form == Format::Html).map(|bars| bars(&items));
        let (title, bars) = (&listing.title, bars.as_ref());
        let look = Appearance { title, bars, ..session.look(&listing.footer) };
        session.screen.data(&noun.text(&listing.rows, form, &flags.format, &look)?)?;
        return Ok(Exit::OK);
    };
    let for_people = matches!(form, Format::Table | Format::Wide);
    if for_people && session.screen.is_terminal() {
        let text = |listing: &Listing<T>, columns| {
            let marked = &listing.marked;
            let look = Appearance { width: Some(columns), marked, ..session.look(&listing.footer) };
            let list = noun.text(&listing.rows, form, &flags.format, &look)?;
            Ok(format!("{}{list}", listing.head))
        };
        let mut marks = Marks::default();
        let read = move || {
            let mut listing = read()?;
            if let Some(contents) = listing.contents {
                let rows = listing.rows.iter();
                let rows = rows.map(|row| ((noun.name)(&row.item), contents(&row.item)));
                listing.marked = marks.note(rows, clock::now());
            }
            Ok(listing)
        };
        return watch::on_terminal(every, session, read, text);
    }
    let every = Duration::from_millis(every.get());
    let mut previous = BTreeMap::new();
    let mut last = read()?;
    let mut away = false;
    loop {
        session.screen.data(&changes(noun, &last.rows, &mut previous))?;
        last = loop {
            std::thread::sleep(every);
            match read() {
                Ok(listing) => break listing,
                // A server that answered once is waited for; the last list stays.
                Err(failure) if failure.exit() == Exit::UNREACHABLE => {
                    if !std::mem::replace(&mut away, true) {
                        session.screen.note(AWAY);
                    }
                }
                Err(failure) => return Err(failure),
            }
        };
        if std::mem::take(&mut away) {
            session.screen.note(BACK);
        }
    }
}

/// Writes a list of all that `read` returns, with the number of rows below it; `one` is the word
/// for a row.
pub fn show_with_count<T: Serialize + Send>(
    noun: &Noun<T>,
    flags: &ListFlags,
    session: &Session,
    one: &str,
    mut read: impl FnMut() -> Result<Vec<T>> + Send,
) -> Result {
    show(noun, flags, session, || {
        let rows = select(noun, read()?, flags)?;
        let footer = count(u64::try_from(rows.len()).unwrap_or(u64::MAX), one);
        Ok(Listing::new(rows, footer))
    })
}

/// Writes a page for each item, or all of them as JSON.
pub fn pages<T: Serialize>(
    items: &[T],
    page: impl Fn(&T, &View<'_>) -> String,
    session: &Session,
) -> Result {
    let text = match session.global.json {
        true => json::list(items),
        false => {
            let pages: Vec<String> = items.iter().map(|it| page(it, &session.view())).collect();
            pages.join("\n")
        }
    };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}

/// What is new, other or gone since the last time, a line of JSON each.
pub fn changes<T: Serialize>(
    noun: &Noun<T>,
    rows: &[Row<T>],
    previous: &mut BTreeMap<String, Value>,
) -> String {
    let mut text = String::new();
    let mut now = BTreeMap::new();
    for row in rows {
        let name = (noun.name)(&row.item);
        if previous.get(&name) != Some(&row.json) {
            text.push_str(&json::line(&row.item));
        }
        now.insert(name, row.json.clone());
    }
    for name in previous.keys().filter(|name| !now.contains_key(*name)) {
        text.push_str(&json::line(&serde_json::json!({"gone": name})));
    }
    *previous = now;
    text
}
