//! The cost of GPU time: sums of the history times the prices of their hours. The history has no
//! money, so a change of prices does not change the past.

use std::collections::BTreeMap;

use gpool_history::{Dimension, Minute, ReportQuery, ReportRow, Span, Step, Totals};
use gpool_model::{Money, Policy, Prices, Refusal};

use crate::usage::{UsageHistory, minute_of};

const PRICED_BY: [Dimension; 3] = [Dimension::Model, Dimension::Pool, Dimension::Node];
/// Milliseconds of an hour, and joules of a kilowatt-hour.
const HOUR: f64 = 3_600_000.0;

/// GPU time of one group and currency, with its cost in millionths.
#[derive(Debug, Clone, PartialEq)]
pub struct Priced {
    /// The GPU time.
    pub row: ReportRow,
    /// The currency; empty for time without a list of prices.
    pub currency: String,
    pub sum: Sum,
}

impl Priced {
    /// Adds the time and cost of another group with the same currency.
    pub fn add(&mut self, other: &Self) {
        self.row.totals += other.row.totals;
        self.sum.add(other.sum);
    }
}

/// The cost of GPU time, in millionths of the currency.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    pub allocated: f64,
    /// Allocated time without running kernels, as far as it was measured.
    pub idle: f64,
    /// Energy; `None` if it has no price or was not measured.
    pub energy: Option<f64>,
    /// Requested GPUs times waiting time.
    pub waited: f64,
    /// Allocated milliseconds of GPUs without a price.
    pub unpriced_ms: u64,
}

impl Sum {
    fn new(totals: Totals, price: Option<Money>, energy: Option<Money>) -> Self {
        let per_hour = |amount: u64, price: Option<Money>| {
            price.map_or(0.0, |it| float(it.get())) / HOUR * float(amount)
        };
        let measured = energy.filter(|_| totals.energy_of_ms > 0);
        Self {
            allocated: per_hour(totals.allocated_ms, price),
            idle: per_hour(totals.busy_of_ms.saturating_sub(totals.busy_ms), price),
            energy: measured.map(|_| per_hour(totals.energy_j, energy)),
            waited: per_hour(totals.waited_ms, price),
            unpriced_ms: if price.is_none() { totals.allocated_ms } else { 0 },
        }
    }

    /// Allocated time and energy.
    #[must_use]
    pub fn all(&self) -> f64 {
        self.allocated + self.energy.unwrap_or(0.0)
    }

    fn add(&mut self, other: Self) {
        self.allocated += other.allocated;
        self.idle += other.idle;
        self.waited += other.waited;
        self.unpriced_ms = self.unpriced_ms.saturating_add(other.unpriced_ms);
        self.energy = match (self.energy, other.energy) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}

#[expect(clippy::cast_precision_loss, reason = "money for people")]
fn float(value: u64) -> f64 {
    value as f64
}

/// The answer to `report` with the cost of each group, sorted by time, then by cost of the group.
///
/// # Errors
/// The store cannot be read, or the report is too large.
pub fn report(
    store: &UsageHistory,
    policy: &Policy,
    report: &ReportQuery<'_>,
) -> Result<Vec<Priced>, Refusal> {
    let mut by = report.by.to_vec();
    by.extend(PRICED_BY.iter().filter(|it| !report.by.contains(it)));
    let name = |names: &[String], wanted: Dimension| {
        by.iter().position(|it| *it == wanted).and_then(|ix| names.get(ix).cloned())
    };
    let mut sums = Sums::new();
    for (span, prices) in periods(policy, report.span) {
        let part = ReportQuery { span, by: &by, n_groups: usize::MAX, ..report.clone() };
        for row in store.report(&part)? {
            let mut names = row.names.unwrap_or_default();
            let [model, pool, node] = PRICED_BY.map(|it| name(&names, it).unwrap_or_default());
            names.truncate(report.by.len());
            let price = prices.of(&node, &pool, &model);
            let start = report.step.map_or(report.span.from, |_| row.start);
            let group = CostGroup { names, is_outside: row.is_outside };
            let sum = sums.entry((start, group, prices.currency.clone())).or_default();
            sum.0 += row.totals;
            sum.1.add(Sum::new(row.totals, price, prices.energy));
        }
    }
    Ok(ranked(sums, report.n_groups))
}

/// The parts of a range with their prices. Prices apply from the hour of the change.
fn periods(policy: &Policy, span: Span) -> Vec<(Span, &Prices)> {
    let mut parts = Vec::new();
    let mut from = span.from;
    for past in policy.past_prices.iter() {
        let until = minute_of(past.until).number() / Step::HOUR.minutes() * Step::HOUR.minutes();
        let until = Minute::new(until).min(span.to);
        if until > from {
            parts.push((Span { from, to: until }, &past.prices));
            from = until;
        }
    }
    parts.push((Span { from, to: span.to }, &policy.prices));
    parts.retain(|(span, _)| span.from < span.to);
    parts
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CostGroup {
    names: Vec<String>,
    /// Whether it is the use of a user's processes that gpool did not start.
    is_outside: bool,
}

/// By start, group and currency.
type Sums = BTreeMap<(Minute, CostGroup, String), (Totals, Sum)>;

/// The rows by time, then by cost of the group; groups beyond `n_groups` as one.
fn ranked(sums: Sums, n_groups: usize) -> Vec<Priced> {
    let mut groups = BTreeMap::<&CostGroup, (f64, u64)>::new();
    for ((_, group, _), (totals, sum)) in &sums {
        let (cost, ms) = groups.entry(group).or_default();
        *cost += sum.all();
        *ms = ms.saturating_add(totals.allocated_ms);
    }
    let mut order: Vec<_> = groups.into_iter().collect();
    order.sort_by(|(a, (cost_a, ms_a)), (b, (cost_b, ms_b))| {
        cost_b.total_cmp(cost_a).then(ms_b.cmp(ms_a)).then(a.cmp(b))
    });
    let ranks: BTreeMap<CostGroup, usize> =
        order.into_iter().enumerate().map(|(rank, (group, _))| (group.clone(), rank)).collect();
    let mut rows = BTreeMap::<(Minute, usize, String), (Option<CostGroup>, Totals, Sum)>::new();
    for ((start, group, currency), (totals, sum)) in sums {
        let rank = ranks.get(&group).copied().unwrap_or(n_groups).min(n_groups);
        let group = (rank < n_groups).then_some(group);
        let row = rows.entry((start, rank, currency)).or_insert((
            group,
            Totals::default(),
            Sum::default(),
        ));
        row.1 += totals;
        row.2.add(sum);
    }
    let row = |((start, _, currency), (group, totals, sum)): (_, (Option<CostGroup>, _, _))| {
        let is_outside = group.as_ref().is_some_and(|group| group.is_outside);
        let names = group.map(|group| group.names);
        Priced { row: ReportRow { start, names, is_outside, totals }, currency, sum }
    };
    rows.into_iter().map(row).collect()
}
