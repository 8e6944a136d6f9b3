//! A list with a selected row, a filter and a sort order.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use gpool_cli::render::list::Column;
use gpool_cli::render::table::Cell;
use gpool_cli::render::view::View;

pub struct ListSpec<T: 'static> {
    pub title: &'static str,
    pub columns: &'static [Column<T>],
    /// The shown columns with their ranks. A narrow view leaves out the highest ranks first, and
    /// never rank 0.
    pub column_ranks: &'static [(&'static str, u8)],
    /// Columns that are left out while all rows have the same text in them.
    pub alike: &'static [&'static str],
    /// The name that identifies a row.
    pub name: fn(&T) -> String,
    /// The text that a filter searches.
    pub text: fn(&T) -> String,
    /// The sort orders; the first is the order of the data.
    pub sorts: &'static [Sort<T>],
}

pub struct Sort<T: 'static> {
    /// The key after `o`.
    pub letter: char,
    pub name: &'static str,
    /// Compares two rows. Equal rows keep the order of the data.
    pub compare: fn(&T, &T) -> Ordering,
}

/// The visible part of a list.
#[derive(Debug, Default)]
pub struct VisibleRows {
    /// The heads of the columns with their ranks.
    pub columns: Vec<(&'static str, u8)>,
    pub lines: Vec<VisibleRow>,
}

#[derive(Debug)]
pub struct VisibleRow {
    /// Whether it is the selected row.
    pub is_selected: bool,
    pub is_tagged: bool,
    /// A cell for each column.
    pub cells: Vec<Cell>,
}

/// The actions on a list that do not depend on its rows.
pub trait Browse {
    /// Its title, with the number of rows, filter and sort order.
    fn title(&self) -> String;
    /// The visible rows on a screen of this height. It scrolls to the selected row.
    fn page(&mut self, height: usize, view: &View<'_>) -> VisibleRows;
    /// The number of rows that the filter shows.
    fn n_shown(&self) -> usize;
    /// Moves the selection by a number of rows.
    fn step(&mut self, by: isize);
    fn filter(&self) -> &str;
    /// Shows only rows that contain each word.
    fn filter_by(&mut self, filter: String);
    /// The keys and names of the sort orders.
    fn sorts(&self) -> Vec<(char, &'static str)>;
    /// Sorts by the order with this key, if there is one.
    fn sort_by(&mut self, letter: char);
    /// Sorts by the next or previous order.
    fn sort_next(&mut self, is_forward: bool);
    fn reverse(&mut self);
    /// Tags the selected row, or removes its tag, and selects the next row.
    fn tag(&mut self);
    /// Removes all tags; `false` if there were none.
    fn untag(&mut self) -> bool;
}

pub struct List<T: 'static> {
    pub kind: &'static ListSpec<T>,
    rows: Vec<T>,
    /// Positions in `rows`, filtered and sorted.
    order: Vec<usize>,
    /// Position of the selected row in `order`.
    at: usize,
    /// Position of the first row on the screen.
    first: usize,
    sort: usize,
    is_reversed: bool,
    filter: String,
    tagged: BTreeSet<String>,
    /// Columns with the same text in all rows.
    alike: Vec<&'static str>,
}

impl<T> List<T> {
    #[must_use]
    pub fn new(kind: &'static ListSpec<T>) -> Self {
        Self {
            kind,
            rows: Vec::new(),
            order: Vec::new(),
            at: 0,
            first: 0,
            sort: 0,
            is_reversed: false,
            filter: String::new(),
            tagged: BTreeSet::new(),
            alike: kind.alike.to_vec(),
        }
    }

    /// Replaces the rows. The selected row stays selected while it exists.
    pub fn replace(&mut self, rows: Vec<T>, view: &View<'_>) {
        let selected = self.selected().map(self.kind.name);
        self.rows = rows;
        let columns = self.kind.columns.iter().filter(|it| self.kind.alike.contains(&it.name));
        let is_alike = |column: &&Column<T>| {
            let mut cells = self.rows.iter().map(|row| (column.cell)(row, view));
            let first = cells.next();
            cells.all(|cell| Some(cell.text()) == first.as_ref().map(Cell::text))
        };
        self.alike = columns.filter(is_alike).map(|column| column.name).collect();
        if !self.tagged.is_empty() {
            let names: BTreeSet<String> = self.rows.iter().map(self.kind.name).collect();
            self.tagged.retain(|name| names.contains(name));
        }
        self.arrange(selected.as_deref());
    }

    /// All rows, in the order of the data.
    #[must_use]
    pub fn rows(&self) -> &[T] {
        &self.rows
    }

    #[must_use]
    pub fn selected(&self) -> Option<&T> {
        self.order.get(self.at).map(|ix| &self.rows[*ix])
    }

    #[must_use]
    pub fn is_tagged(&self, row: &T) -> bool {
        !self.tagged.is_empty() && self.tagged.contains(&(self.kind.name)(row))
    }

    pub fn tagged(&self) -> Vec<&T> {
        match self.tagged.is_empty() {
            true => Vec::new(),
            false => self.rows.iter().filter(|row| self.is_tagged(row)).collect(),
        }
    }

    fn rearrange(&mut self) {
        let selected = self.selected().map(self.kind.name);
        self.arrange(selected.as_deref());
    }

    fn arrange(&mut self, selected: Option<&str>) {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let has_all = |row: &T| {
            let text = (self.kind.text)(row).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.order = (0..self.rows.len())
            .filter(|ix| words.is_empty() || has_all(&self.rows[*ix]))
            .collect();
        let compare = self.kind.sorts[self.sort].compare;
        self.order.sort_by(|a, b| compare(&self.rows[*a], &self.rows[*b]));
        if self.is_reversed {
            self.order.reverse();
        }
        let is_it = |ix: &usize| Some((self.kind.name)(&self.rows[*ix]).as_str()) == selected;
        let found = selected.and_then(|_| self.order.iter().position(is_it));
        self.at = found.unwrap_or(self.at).min(self.order.len().saturating_sub(1));
    }
}

impl<T> Browse for List<T> {
    fn title(&self) -> String {
        let mut title = format!("{} {}", self.kind.title, self.order.len());
        if !self.filter.is_empty() {
            title.push_str(&format!(" of {} with \"{}\"", self.rows.len(), self.filter));
        }
        if !self.tagged.is_empty() {
            title.push_str(&format!(" · {} tagged", self.tagged.len()));
        }
        if self.sort > 0 || self.is_reversed {
            let reversed = if self.is_reversed { ", reversed" } else { "" };
            title.push_str(&format!(" · by {}{reversed}", self.kind.sorts[self.sort].name));
        }
        title
    }

    fn page(&mut self, height: usize, view: &View<'_>) -> VisibleRows {
        let last_first = self.order.len().saturating_sub(height);
        let least = (self.at + 1).saturating_sub(height);
        self.first = self.first.clamp(least, self.at.max(least)).min(last_first);
        let columns: Vec<(&Column<T>, u8)> = (self.kind.column_ranks.iter())
            .filter(|(name, _)| !self.alike.contains(name))
            .filter_map(|(name, rank)| {
                let column = self.kind.columns.iter().find(|column| column.name == *name);
                Some((column?, *rank))
            })
            .collect();
        let shown = self.order.iter().enumerate().skip(self.first).take(height);
        let line = |(position, ix): (usize, &usize)| {
            let row = &self.rows[*ix];
            VisibleRow {
                is_selected: position == self.at,
                is_tagged: self.is_tagged(row),
                cells: columns.iter().map(|(column, _)| (column.cell)(row, view)).collect(),
            }
        };
        let lines = shown.map(line).collect();
        VisibleRows { columns: columns.iter().map(|(it, rank)| (it.head, *rank)).collect(), lines }
    }

    fn n_shown(&self) -> usize {
        self.order.len()
    }

    fn step(&mut self, by: isize) {
        let last = self.order.len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(by).min(last);
    }

    fn filter(&self) -> &str {
        &self.filter
    }

    fn filter_by(&mut self, filter: String) {
        self.filter = filter;
        self.rearrange();
    }

    fn sorts(&self) -> Vec<(char, &'static str)> {
        self.kind.sorts.iter().map(|sort| (sort.letter, sort.name)).collect()
    }

    fn sort_by(&mut self, letter: char) {
        let found = self.kind.sorts.iter().position(|sort| sort.letter == letter);
        self.sort = found.unwrap_or(self.sort);
        self.rearrange();
    }

    fn sort_next(&mut self, is_forward: bool) {
        let n = self.kind.sorts.len();
        self.sort = (self.sort + if is_forward { 1 } else { n - 1 }) % n;
        self.rearrange();
    }

    fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.rearrange();
    }

    fn tag(&mut self) {
        let Some(name) = self.selected().map(self.kind.name) else { return };
        if !self.tagged.remove(&name) {
            self.tagged.insert(name);
        }
        self.step(1);
    }

    fn untag(&mut self) -> bool {
        !std::mem::take(&mut self.tagged).is_empty()
    }
}
