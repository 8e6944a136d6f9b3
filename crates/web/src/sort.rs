//! Columns that sort a table. The order is in the address, so that it stays in bookmarks and while
//! the page updates.

use std::cmp::Ordering;

/// A heading of a column.
#[derive(Debug, Clone)]
pub struct Head {
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

    /// The order of two values.
    pub(crate) fn of_two<T: PartialOrd>(self, one: &T, other: &T) -> Ordering {
        let order = one.partial_cmp(other).unwrap_or(Ordering::Equal);
        if self.is_falling { order.reverse() } else { order }
    }

    /// The headings of columns with their keys. Numbers begin with the largest value. `page` is the
    /// address with its query, to which the order is added.
    pub(crate) fn heads(
        self,
        columns: &[(&'static str, &'static str, bool)],
        page: &str,
    ) -> Vec<Head> {
        let head = |(name, key, is_number): &(&'static str, &'static str, bool)| {
            let is_sorted = !key.is_empty() && *key == self.by;
            let next_falls = if is_sorted { !self.is_falling } else { *is_number };
            let sign = if next_falls { "-" } else { "" };
            let joint = if page.contains('?') { '&' } else { '?' };
            let href = match key.is_empty() {
                true => String::new(),
                false => format!("{page}{joint}sort={sign}{key}"),
            };
            let sorted = match (is_sorted, self.is_falling) {
                (false, _) => "",
                (true, false) => "ascending",
                (true, true) => "descending",
            };
            Head { name, href, sorted }
        };
        columns.iter().map(head).collect()
    }
}
