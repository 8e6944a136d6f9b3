//! Columns that sort a table. The order is in the address, so that it stays in bookmarks and while
//! the page updates.

use std::cmp::Ordering;

/// A column of a table: its heading, its key in the address, and its values. A column without
/// values does not sort.
pub struct Column<T>(pub &'static str, pub &'static str, pub By<T>);

/// The sort key of a column.
pub enum By<T> {
    Nothing,
    /// Texts; the first in the alphabet comes first.
    Text(fn(&T) -> String),
    /// Numbers; the largest comes first.
    Number(fn(&T) -> f64),
}

#[derive(Debug, Clone)]
pub struct ColumnHeading {
    pub name: &'static str,
    /// The link that sorts by the column; empty if nothing does.
    pub href: String,
    /// The value of `aria-sort`; empty if the table is not sorted by the column.
    pub sorted: &'static str,
}

/// The order of a table: the key of a column, and whether the largest value is first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Order<'a> {
    /// The key; empty for the usual order.
    pub by: &'a str,
    /// Whether the largest value comes first.
    pub is_falling: bool,
}

impl<'a> Order<'a> {
    /// Reads `idle` or `-idle`.
    #[must_use]
    pub fn of(text: &'a str) -> Self {
        match text.strip_prefix('-') {
            Some(by) => Self { by, is_falling: true },
            None => Self { by: text, is_falling: false },
        }
    }

    /// Sorts rows by the column with the key of the order. The sort is stable: equal rows keep
    /// their order, and all do if no column has the key.
    pub(crate) fn sort<R, T>(self, columns: &[Column<T>], rows: &mut [R], of: impl Fn(&R) -> &T) {
        let Some(Column(.., by)) = columns.iter().find(|it| it.1 == self.by) else { return };
        let order = |order: Ordering| if self.is_falling { order.reverse() } else { order };
        match by {
            By::Nothing => {}
            By::Text(text) => rows.sort_by(|one, other| order(text(of(one)).cmp(&text(of(other))))),
            By::Number(number) => {
                let number = |row: &R| number(of(row));
                rows.sort_by(|one, other| order(number(one).total_cmp(&number(other))));
            }
        }
    }

    /// The headings of columns. Each links to `page`, an address with its query, plus the order.
    pub(crate) fn heads<T>(self, columns: &[Column<T>], page: &str) -> Vec<ColumnHeading> {
        let joint = if page.contains('?') { '&' } else { '?' };
        let head = |Column(name, key, by): &Column<T>| {
            let is_sorted = !key.is_empty() && *key == self.by;
            let next_falls = match is_sorted {
                true => !self.is_falling,
                false => matches!(by, By::Number(_)),
            };
            let sign = if next_falls { "-" } else { "" };
            let href = match by {
                By::Nothing => String::new(),
                By::Text(_) | By::Number(_) => format!("{page}{joint}sort={sign}{key}"),
            };
            let sorted = match (is_sorted, self.is_falling) {
                (false, _) => "",
                (true, false) => "ascending",
                (true, true) => "descending",
            };
            ColumnHeading { name, href, sorted }
        };
        columns.iter().map(head).collect()
    }
}

/// The keys of columns that sort, as an address can have them.
pub(crate) fn keys<T>(columns: &[Column<T>]) -> Vec<&'static str> {
    let sort = columns.iter().filter(|it| !matches!(it.2, By::Nothing));
    sort.map(|Column(_, key, _)| *key).collect()
}
