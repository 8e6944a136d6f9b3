//! The owners of a cluster's GPUs as a picture: a symbol for each GPU, nodes side by side. If that
//! does not fit, a symbol for each node or group of nodes shows its utilization.

use std::collections::BTreeMap;

use gpool_cli::render::row::{Ink, StyledLine};
use gpool_cli::render::safe::safe;
use gpool_cli::render::style::Style;
use gpool_cli::render::words::{NOTHING, grouped};

/// The owners of GPUs, by number; a name keeps its number and letter.
#[derive(Debug, Default)]
pub struct Owners {
    all: Vec<Owner>,
    numbers: BTreeMap<String, usize>,
}

/// An owner of GPUs.
#[derive(Debug)]
struct Owner {
    /// The name without control characters.
    shown: String,
    letter: char,
}

/// The letter of owners when no letter is left.
const ANY: char = '*';

impl Owners {
    /// The number of an owner.
    pub fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.all.len();
        let shown = if name.is_empty() { NOTHING.to_owned() } else { safe(name).into_owned() };
        self.all.push(Owner { shown, letter: self.letter(name) });
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The first letter of the name, small or capital, or else the first unused letter.
    fn letter(&self, name: &str) -> char {
        let first = name.chars().next().filter(char::is_ascii_alphabetic);
        let own =
            first.into_iter().flat_map(|it| [it.to_ascii_lowercase(), it.to_ascii_uppercase()]);
        let is_free = |letter: &char| !self.all.iter().any(|owner| owner.letter == *letter);
        own.chain('a'..='z').chain('A'..='Z').find(is_free).unwrap_or(ANY)
    }

    /// The number of GPUs of each owner as lines, largest first, with the number of owners that do
    /// not fit.
    #[must_use]
    pub fn legend(
        &self,
        nodes: &[Vec<Option<usize>>],
        columns: usize,
        lines: usize,
    ) -> Vec<StyledLine> {
        let mut n_of = vec![0_u64; self.all.len()];
        for owner in nodes.iter().flatten().flatten() {
            n_of[*owner] += 1;
        }
        let mut order: Vec<usize> = (0..self.all.len()).filter(|owner| n_of[*owner] > 0).collect();
        order.sort_by_key(|owner| (std::cmp::Reverse(n_of[*owner]), *owner));
        let mut rows: Vec<StyledLine> = Vec::new();
        for (ix, number) in order.iter().enumerate() {
            let owner = &self.all[*number];
            let mut item = StyledLine::default();
            item.push(Ink::On(*number), &owner.letter.to_string());
            item.plain(&format!(" {} {}", owner.shown, grouped(n_of[*number])));
            let n_left = order.len() - ix - 1;
            let more = if n_left > 0 { format!("  +{n_left} more").len() } else { 0 };
            let is_last = rows.len() >= lines;
            let needed = item.width() + if is_last { more } else { 0 };
            match rows.last_mut() {
                Some(row) if row.width() + 2 + needed <= columns => {
                    row.plain("  ");
                    row.append(item);
                }
                Some(_) | None if !is_last => rows.push(item),
                Some(row) => {
                    row.dim(&format!("  +{} more", n_left + 1));
                    break;
                }
                None => break,
            }
        }
        rows
    }
}

/// A cluster to draw.
#[derive(Debug, Clone, Copy)]
pub struct Grid<'a> {
    /// The owners of GPUs.
    pub owners: &'a Owners,
    /// For each GPU of each node the number of its owner; `None` if it is free.
    pub nodes: &'a [Vec<Option<usize>>],
    /// Whether to draw ASCII only.
    pub ascii: bool,
}

/// A picture of a cluster.
#[derive(Debug, Default)]
pub struct Drawn {
    /// The lines.
    pub rows: Vec<StyledLine>,
    /// Number of nodes per symbol; `None` if each GPU has its own.
    pub nodes_of_sign: Option<usize>,
}

/// Number of node symbols between blanks, as an aid for counting.
const GROUP: usize = 10;

impl Grid<'_> {
    /// Draws the cluster as large as it fits. Each line begins with the number of its first node.
    #[must_use]
    pub fn draw(&self, columns: usize, lines: usize) -> Drawn {
        let label = self.nodes.len().saturating_sub(1).to_string().len() + 1;
        let Some(room) = columns.checked_sub(label).filter(|room| *room > 0 && lines > 0) else {
            return Drawn::default();
        };
        let n_gpus = self.nodes.iter().map(Vec::len).max().unwrap_or(0);
        let side_by_side = (room + 1) / (n_gpus + 1);
        let round = side_by_side - side_by_side % GROUP;
        let fits =
            |per_line: &usize| *per_line > 0 && self.nodes.len().div_ceil(*per_line) <= lines;
        if let Some(per_line) = [round, side_by_side].into_iter().find(fits) {
            let rows = self.of_gpus(label, per_line, n_gpus);
            return Drawn { rows, nodes_of_sign: None };
        }
        // Every eleventh column is blank.
        let whole = (room + 1) / (GROUP + 1) * GROUP;
        let per_line = if whole > 0 { whole } else { room };
        let together = (0..).flat_map(|power| [1, 2, 5].map(|it| it * 10_usize.pow(power)));
        let fits = |n: &usize| self.nodes.len().div_ceil(*n).div_ceil(per_line) <= lines;
        let together = together.take_while(|n| *n <= self.nodes.len().max(1) * 10).find(fits);
        let together = together.unwrap_or(usize::MAX);
        let rows = self.of_nodes(label, per_line, together);
        Drawn { rows, nodes_of_sign: Some(together) }
    }

    fn of_gpus(&self, label: usize, per_line: usize, n_gpus: usize) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        for (ix, nodes) in self.nodes.chunks(per_line).enumerate() {
            let mut row = labelled(ix * per_line, label);
            for (ix, node) in nodes.iter().enumerate() {
                if ix > 0 {
                    row.plain(" ");
                }
                for owner in node {
                    match owner {
                        Some(owner) => row.push(Ink::On(*owner), &self.letter(*owner)),
                        None => row.dim(self.free()),
                    }
                }
                row.plain(&" ".repeat(n_gpus - node.len()));
            }
            rows.push(row);
        }
        rows
    }

    fn of_nodes(&self, label: usize, per_line: usize, together: usize) -> Vec<StyledLine> {
        let mut rows = Vec::new();
        let signs: Vec<&[Vec<Option<usize>>]> = self.nodes.chunks(together).collect();
        for (ix, line) in signs.chunks(per_line).enumerate() {
            let mut row = labelled(ix * per_line * together, label);
            for (ix, nodes) in line.iter().enumerate() {
                if ix > 0 && ix.is_multiple_of(GROUP) {
                    row.plain(" ");
                }
                self.sign(nodes, &mut row);
            }
            rows.push(row);
        }
        rows
    }

    /// The utilization of nodes, in the color of the owner with most of their GPUs.
    fn sign(&self, nodes: &[Vec<Option<usize>>], row: &mut StyledLine) {
        let n_gpus = nodes.iter().map(Vec::len).sum::<usize>();
        let mut n_of = BTreeMap::<usize, usize>::new();
        for owner in nodes.iter().flatten().flatten() {
            *n_of.entry(*owner).or_default() += 1;
        }
        let n_taken = n_of.values().sum::<usize>();
        let most = n_of.iter().max_by_key(|(owner, n)| (**n, std::cmp::Reverse(**owner)));
        let Some((owner, _)) = most else { return row.dim(self.free()) };
        let levels = if self.ascii { &DIGITS[..] } else { &BLOCKS[..] };
        let last = levels.len() - 1;
        let level = if n_taken == n_gpus {
            last
        } else {
            // A partly used group is never shown as empty or full.
            (n_taken * (last + 1) / n_gpus).clamp(1, last) - 1
        };
        row.push(Ink::Hue(*owner), levels[level]);
    }

    fn letter(&self, owner: usize) -> String {
        self.owners.all.get(owner).map_or(ANY, |owner| owner.letter).to_string()
    }

    fn free(&self) -> &'static str {
        if self.ascii { "." } else { "·" }
    }
}

/// Levels of utilization above zero; the last is full.
const BLOCKS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// The same levels in ASCII.
const DIGITS: [&str; 10] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "#"];

fn labelled(node: usize, label: usize) -> StyledLine {
    let mut row = StyledLine::default();
    row.push(Ink::Style(Style::Dim), &format!("{node:>0$} ", label - 1));
    row
}
