//! Reports: GPU time over hours by project, user, model, kind, node, pool and job.

use std::collections::{BTreeMap, HashMap};

use rusqlite::Connection;

use crate::error::Error;
use crate::keys::{Level, NODES, Stream};
use crate::names::{self, NameKind};
use crate::reader::{CELLS_MAX, Reader};
use crate::recent;
use crate::seal;
use crate::time::{Minute, Span, Step};
use crate::totals::{JOB, Key, NODE, Totals, each_row};

/// The kind of use by processes that gpool did not start. It is a group of its own beside the use
/// of the same user's jobs.
pub const UNMANAGED: &str = "unmanaged";

/// A property for splitting time. The numbers are positions in a stored key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    Project = 0,
    User = 1,
    Model = 2,
    /// The kind of job or use.
    Kind = 3,
    /// The node; waiting time has none.
    Node = 4,
    /// The pool; empty in records of older versions.
    Pool = 5,
    /// The job or array element; waiting time has none.
    Job = 6,
}

impl Dimension {
    fn kind(self) -> NameKind {
        match self {
            Self::Project => NameKind::Project,
            Self::User => NameKind::User,
            Self::Model => NameKind::Model,
            Self::Kind => NameKind::Use,
            Self::Node => NameKind::Node,
            Self::Pool => NameKind::Pool,
            Self::Job => NameKind::Job,
        }
    }
}

#[derive(Debug, Clone)]
pub struct ReportQuery<'a> {
    /// The hours; parts of an hour count as a whole one.
    pub span: Span,
    /// The length of each row, at least an hour; `None` for one row over the whole range.
    pub step: Option<Step>,
    /// The properties that split the time.
    pub by: &'a [Dimension],
    /// Only time with these names.
    pub only: &'a [(Dimension, &'a str)],
    /// The most groups, by allocated time; the others are summed up.
    pub n_groups: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportRow {
    pub start: Minute,
    /// The names in the order of `by`; `None` for the sum of all groups beyond the limit.
    pub names: Option<Vec<String>>,
    /// Whether the group is time outside gpool, if time is split by user or kind.
    pub is_outside: bool,
    pub totals: Totals,
}

/// The place of the kind in a key.
const KIND: usize = Dimension::Kind as usize;

/// Sums by group and point.
type Cells = HashMap<(Key, usize), Totals>;

impl Reader {
    /// Sums of allocated, busy and useful time, sorted by time, then by allocated time of the
    /// group. Hours without use have no rows.
    ///
    /// # Errors
    /// The file is missing, locked or damaged, or the report is too large.
    pub fn report(&self, report: &ReportQuery<'_>) -> Result<Vec<ReportRow>, Error> {
        let connection = self.connect()?;
        let mut only = Vec::new();
        for (dimension, name) in report.only {
            match names::find(&connection, dimension.kind(), name)? {
                Some(n) => only.push((*dimension as usize, n + 1)),
                None => return Ok(Vec::new()),
            }
        }
        let outside = names::find(&connection, NameKind::Use, UNMANAGED)?.map(|n| n + 1);
        let cells = sum(&connection, report, &only, outside)?;
        rows(&connection, report, cells, outside)
    }
}

fn sum(
    connection: &Connection,
    report: &ReportQuery<'_>,
    only: &[(usize, u32)],
    outside: Option<u32>,
) -> Result<Cells, Error> {
    let step = report.step.map(Step::at_least_hours);
    let hours = report.span.hours();
    let span = Span { from: Minute::of_hour(hours.start), to: Minute::of_hour(hours.end) };
    let point = |hour: u32| match step {
        Some(step) => step.point(span, Minute::of_hour(hour)).unwrap_or(0),
        None => 0,
    };
    let mut cells = Cells::new();
    let mut add = |hour: u32, key: Key, totals: Totals| {
        if only.iter().any(|(place, n)| key[*place] != *n) {
            return;
        }
        let mut group = Key::default();
        for dimension in report.by {
            group[*dimension as usize] = key[*dimension as usize];
        }
        if report.by.contains(&Dimension::User) && Some(key[KIND]) == outside {
            group[KIND] = key[KIND];
        }
        *cells.entry((group, point(hour))).or_default() += totals;
    };
    let is_detailed = report.by.iter().any(|it| matches!(it, Dimension::Node | Dimension::Job));
    let is_detailed = is_detailed || only.iter().any(|(place, _)| matches!(*place, NODE | JOB));
    let of_node = only.iter().find(|(place, _)| *place == NODE).map(|(_, n)| n / NODES);
    let level = if is_detailed { Level::NodeTotals } else { Level::Totals };
    for hour in hours.clone() {
        let rows = match of_node {
            Some(part) => level.row(hour, part)..=level.row(hour, part),
            None => level.rows(hour),
        };
        let sql = "SELECT data FROM block WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
        let mut statement = connection.prepare_cached(sql)?;
        let mut found = statement.query(rows.into_inner())?;
        while let Some(row) = found.next()? {
            let data = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
            // The sums of a damaged block are absent.
            let _ = each_row(data, &mut |key, row| add(hour, key, row.totals));
        }
    }
    for pending in recent::pending(connection, Stream::Use, hours)? {
        if of_node.is_none_or(|part| part == pending.part) {
            for (key, totals) in seal::unsealed_use(connection, pending)?.1 {
                add(pending.hour, key, totals);
            }
        }
    }
    if cells.len() > CELLS_MAX {
        return Err(Error::TooWide { n_cells: cells.len(), limit: CELLS_MAX });
    }
    Ok(cells)
}

fn rows(
    connection: &Connection,
    report: &ReportQuery<'_>,
    cells: Cells,
    outside: Option<u32>,
) -> Result<Vec<ReportRow>, Error> {
    let mut allocated = BTreeMap::<Key, u64>::new();
    for ((group, _), totals) in &cells {
        let sum = allocated.entry(*group).or_default();
        *sum = sum.saturating_add(totals.allocated_ms);
    }
    let mut order: Vec<(Key, u64)> = allocated.into_iter().collect();
    // Stable: equal groups keep the order of their numbers.
    order.sort_by_key(|(_, ms)| std::cmp::Reverse(*ms));
    let mut ranks = HashMap::new();
    let mut texts = Vec::new();
    for (rank, (group, _)) in order.into_iter().enumerate() {
        ranks.insert(group, rank.min(report.n_groups));
        if rank < report.n_groups {
            let of = |dimension: &Dimension| match group[*dimension as usize].checked_sub(1) {
                Some(n) => names::text_of(connection, dimension.kind(), n),
                None => Ok(String::new()),
            };
            let names = report.by.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            texts.push((names, outside.is_some() && Some(group[KIND]) == outside));
        }
    }
    let mut sums = BTreeMap::<(usize, usize), Totals>::new();
    for ((group, point), totals) in cells {
        let rank = ranks.get(&group).copied().unwrap_or(report.n_groups);
        *sums.entry((point, rank)).or_default() += totals;
    }
    let step = report.step.map(Step::at_least_hours);
    let start = |point: usize| {
        let Some(step) = step else { return report.span.from };
        let point = u32::try_from(point).unwrap_or(u32::MAX);
        step.start(report.span).after(point.saturating_mul(step.minutes()))
    };
    let row = |((point, rank), totals): ((usize, usize), Totals)| ReportRow {
        start: start(point),
        names: texts.get(rank).map(|(names, _)| names.clone()),
        is_outside: texts.get(rank).is_some_and(|(_, is_outside)| *is_outside),
        totals,
    };
    Ok(sums.into_iter().map(row).collect())
}
