//! Bars beside the rows of a table: three parts of a row, of the largest row.

use gpool_wire::cost::CostRow;
use gpool_wire::usage::UsageRow;
use gpool_wire::waste::WasteRow;

#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    pub parts: [&'static str; 3],
    /// Percentages of the largest row: the parts of each row, one after the other.
    pub rows: Vec<[f64; 3]>,
}

impl Bars {
    fn of<'r, T: 'r>(
        parts: [&'static str; 3],
        rows: &[&'r T],
        amounts: impl Fn(&'r T) -> [f64; 3],
    ) -> Self {
        let rows: Vec<[f64; 3]> =
            rows.iter().map(|row| amounts(row).map(|part| part.max(0.0))).collect();
        let largest = rows.iter().map(|row| row.iter().sum()).fold(0.0, f64::max);
        let percent = |part: f64| if largest > 0.0 { 100.0 * part / largest } else { 0.0 };
        Self { parts, rows: rows.into_iter().map(|row| row.map(percent)).collect() }
    }

    /// GPU time: busy, idle and not measured.
    #[must_use]
    pub fn of_usage(rows: &[&UsageRow]) -> Self {
        Self::of(["busy", "idle", "not measured"], rows, |row| {
            let not_measured = row.gpu_hours - row.measured_gpu_hours;
            let idle = row.idle_gpu_hours().unwrap_or(0.0);
            [row.busy_gpu_hours.unwrap_or(0.0), idle, not_measured]
        })
    }

    /// Costs: of busy or not measured time, of idle time, and of energy.
    #[must_use]
    pub fn of_cost(rows: &[&CostRow]) -> Self {
        Self::of(["busy", "idle", "energy"], rows, |CostRow { cost, .. }| {
            let (idle, energy) = (cost.idle_cost.unwrap_or(0.0), cost.energy_cost.unwrap_or(0.0));
            [cost.cost - idle - energy, idle, energy]
        })
    }

    /// GPU time of jobs: busy and idle.
    #[must_use]
    pub fn of_waste(rows: &[&WasteRow]) -> Self {
        Self::of(["busy", "idle", "not measured"], rows, |row| {
            [row.gpu_hours - row.idle_gpu_hours, row.idle_gpu_hours, 0.0]
        })
    }
}
