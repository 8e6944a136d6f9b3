//! The lines and fields of `sreport`. Pure.

use std::collections::{BTreeMap, BTreeSet};

use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::safe;
use gpool_wire::usage::{GpuHistory, UsageRow};
use gpool_wire::{QuotaRow, catalogue};

use super::table::Field;

const HOUR: u64 = 3600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportKind {
    Cluster,
    /// Accounts with their users.
    Accounts,
    /// Users with their accounts.
    Users,
    /// The users with most usage.
    Top,
}

impl ReportKind {
    /// The title, with the number of users in [`ReportKind::Top`].
    pub fn title(self, n_top: usize) -> String {
        match self {
            Self::Cluster => "Cluster Utilization".to_owned(),
            Self::Accounts => "Cluster/Account/User Utilization".to_owned(),
            Self::Users => "Cluster/User/Account Utilization".to_owned(),
            Self::Top => format!("Top {n_top} Users"),
        }
    }

    /// The format without an option.
    pub fn fields(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster,TRESName,Allocated,Down,PLNDDown,Idle,Planned,Reported",
            Self::Accounts => "Cluster,Account,Login,ProperName,TRESName,Used,Energy",
            Self::Users | Self::Top => "Cluster,Login,ProperName,Account,TRESName,Used,Energy",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// The cluster; there is only one.
    Cluster,
    /// The resource.
    Tres,
    /// The project.
    Account,
    /// The user.
    Login,
    /// A field that gpool does not have.
    Absent,
    /// GPU time of jobs.
    Used,
    /// Energy of the GPUs in joules.
    Energy,
    /// GPU time without records, or in use by programs outside of gpool.
    Down,
    /// Idle GPU time while no job waited.
    Idle,
    /// Idle GPU time while jobs waited.
    Planned,
    /// The time of all GPUs.
    Reported,
}

pub static FIELDS: &[Field<Cell>] = &[
    ("Account", 15, false, Cell::Account),
    ("Allocated", 12, false, Cell::Used),
    ("Cluster", 9, false, Cell::Cluster),
    ("Down", 10, false, Cell::Down),
    ("Energy", 10, false, Cell::Energy),
    ("Idle", 12, false, Cell::Idle),
    ("Login", 9, false, Cell::Login),
    ("Planned", 10, false, Cell::Planned),
    ("PLND Down", 10, false, Cell::Absent),
    ("Proper Name", 15, false, Cell::Absent),
    ("Reported", 12, false, Cell::Reported),
    ("TRES Name", 14, false, Cell::Tres),
    ("Used", 10, false, Cell::Used),
];

/// A line: names, and times in seconds of one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageLine {
    /// The project.
    pub account: String,
    /// The user.
    pub login: String,
    /// GPU time of jobs.
    pub used: f64,
    /// Energy in kilowatt-hours, where it was measured.
    pub energy_kwh: Option<f64>,
    /// The cluster, in a line about it.
    pub cluster: Option<ClusterTimes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClusterTimes {
    /// GPU time without records, or in use by programs outside of gpool.
    pub down: f64,
    /// Idle GPU time while no job waited.
    pub idle: f64,
    /// Idle GPU time while jobs waited.
    pub planned: f64,
    /// The time of all GPUs.
    pub reported: f64,
}

impl UsageLine {
    /// The text of a field. `total` is the time of all GPUs, for percentages.
    pub fn text(&self, cell: Cell, unit: Unit, total: f64) -> String {
        let of_cluster = |of: fn(ClusterTimes) -> f64| {
            self.cluster.map_or_else(String::new, |it| unit.text(of(it), total))
        };
        match cell {
            Cell::Cluster => "gpool".to_owned(),
            Cell::Tres => "gres/gpu".to_owned(),
            Cell::Account => safe(&self.account).into_owned(),
            Cell::Login => safe(&self.login).into_owned(),
            Cell::Absent => String::new(),
            Cell::Used => unit.text(self.used, total),
            Cell::Energy => {
                self.energy_kwh.map_or_else(String::new, |kwh| format!("{:.0}", kwh * 3.6e6))
            }
            Cell::Down => of_cluster(|it| it.down),
            Cell::Idle => of_cluster(|it| it.idle),
            Cell::Planned => of_cluster(|it| it.planned),
            Cell::Reported => of_cluster(|it| it.reported),
        }
    }

    fn add(&mut self, row: &UsageRow) {
        self.used += seconds(row.gpu_hours);
        if let Some(more) = row.energy_kwh {
            *self.energy_kwh.get_or_insert(0.0) += more;
        }
    }
}

fn seconds(hours: f64) -> f64 {
    hours * 3600.0
}

/// The unit of times: a number of seconds, a percentage, or both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    name: &'static str,
    seconds: Option<f64>,
    is_part: bool,
}

/// The units by the start of their names.
const UNITS: [(&str, Unit); 7] = [
    ("secper", unit("TRES Seconds/Percentage of Total", Some(1.0), true)),
    ("minper", unit("TRES Minutes/Percentage of Total", Some(60.0), true)),
    ("hourper", unit("TRES Hours/Percentage of Total", Some(3600.0), true)),
    ("seconds", unit("TRES Seconds", Some(1.0), false)),
    ("minutes", unit("TRES Minutes", Some(60.0), false)),
    ("hours", unit("TRES Hours", Some(3600.0), false)),
    ("percent", unit("Percentage of Total", None, true)),
];

const fn unit(name: &'static str, seconds: Option<f64>, is_part: bool) -> Unit {
    Unit { name, seconds, is_part }
}

impl Unit {
    /// Parses `Hours`; names may be cut to a letter.
    pub fn read(text: &str) -> Result<Self> {
        let asked = text.to_ascii_lowercase();
        // Cut names mean the units without a percentage, as in Slurm.
        let exact = UNITS.iter().find(|(name, _)| *name == asked);
        let cut = || UNITS.iter().rev().find(|(name, _)| name.starts_with(&asked));
        let found = exact.or_else(cut).filter(|_| !asked.is_empty());
        found.map(|(_, unit)| *unit).ok_or_else(|| {
            let what = format!("-t: there is no unit {text:?}");
            let known = "Seconds, Minutes, Hours, Percent, SecPer, MinPer, HourPer";
            Failure::new(catalogue::INVALID, what).why(format!("the choices are {known}"))
        })
    }

    /// Its name in the head of a report.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Whether it needs the time of all GPUs.
    pub fn is_part(self) -> bool {
        self.is_part
    }

    fn text(self, seconds: f64, total: f64) -> String {
        let part = if total > 0.0 { 100.0 * seconds / total } else { 0.0 };
        match (self.seconds, self.is_part) {
            (Some(size), false) => format!("{:.0}", seconds / size),
            (Some(size), true) => format!("{:.0}({part:.2}%)", seconds / size),
            (None, _) => format!("{part:.2}%"),
        }
    }
}

/// The time of all GPUs, in seconds of one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Capacity {
    /// From the first record of each GPU on.
    pub reported: f64,
    /// The part without records.
    pub down: f64,
    /// The part with records, by hour since 1970.
    pub by_hour: BTreeMap<u64, f64>,
}

impl Capacity {
    /// Sums up a history of allocated parts.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn of(history: &GpuHistory) -> Self {
        let lasts = history.gpus.iter().map(|gpu| gpu.allocated.iter().rposition(Option::is_some));
        // The last minutes are not recorded yet.
        let n_points = lasts.flatten().max().map_or(0, |last| last + 1);
        let step = history.step_s as f64;
        let mut sum = Self::default();
        for gpu in &history.gpus {
            let points = gpu.allocated.iter().take(n_points).zip(0..);
            for (point, nth) in points.skip_while(|(point, _)| point.is_none()) {
                sum.reported += step;
                match point {
                    Some(_) => sum.know(history.start.0.get() / 1000, history.step_s, nth),
                    None => sum.down += step,
                }
            }
        }
        sum
    }

    /// Adds the nth point of a history, which may be longer than an hour.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn know(&mut self, start: u64, step: u64, nth: u64) {
        let (mut from, end) = (start + nth * step, start + (nth + 1) * step);
        while from < end {
            let hour = from / HOUR;
            let to = end.min((hour + 1) * HOUR);
            *self.by_hour.entry(hour).or_default() += (to - from) as f64;
            from = to;
        }
    }
}

/// The line of the cluster, from GPU time by hour and kind.
pub fn cluster(rows: &[UsageRow], capacity: &Capacity) -> UsageLine {
    let mut line = UsageLine::default();
    let mut down = capacity.down;
    // By hour: in use, and waited for.
    let mut by_hour = BTreeMap::<u64, (f64, f64)>::new();
    for row in rows {
        let (used, waited) = by_hour.entry(row.start.0.get() / 1000 / HOUR).or_default();
        *used += seconds(row.gpu_hours);
        *waited += seconds(row.waited_gpu_hours);
        match row.kind.as_deref() {
            Some("unmanaged") => down += seconds(row.gpu_hours),
            _ => line.add(row),
        }
    }
    let rest = (capacity.reported - line.used - down).max(0.0);
    // As Slurm counts it: idle resources while jobs wait for them.
    let planned = by_hour.iter().map(|(hour, (used, waited))| {
        let known = capacity.by_hour.get(hour).copied().unwrap_or(0.0);
        waited.min((known - used).max(0.0))
    });
    let planned = planned.sum::<f64>().min(rest);
    let idle = rest - planned;
    line.cluster = Some(ClusterTimes { down, idle, planned, reported: capacity.reported });
    line
}

/// A line for each account, with the accounts below it, followed by its users.
pub fn accounts(rows: &[UsageRow], projects: &[QuotaRow], is_tree: bool) -> Vec<UsageLine> {
    let name = |row: &UsageRow| row.project.clone().unwrap_or_default();
    let parents: BTreeMap<&str, Option<&str>> =
        projects.iter().map(|it| (it.project.as_str(), it.parent.as_deref())).collect();
    let mut sums = BTreeMap::<String, UsageLine>::new();
    let mut root = UsageLine { account: "root".to_owned(), ..UsageLine::default() };
    for row in rows {
        root.add(row);
        let mut above = Some(name(row));
        while let Some(account) = above {
            above = parents.get(&*account).copied().flatten().map(str::to_owned);
            let new = UsageLine { account: account.clone(), ..UsageLine::default() };
            sums.entry(account).or_insert(new).add(row);
        }
    }
    // Projects that were deleted come last.
    let known: BTreeSet<&str> = parents.keys().copied().collect();
    let deleted = sums.keys().filter(|it| !known.contains(it.as_str())).map(|it| (it.as_str(), 0));
    let all = projects.iter().map(|it| (it.project.as_str(), it.depth)).chain(deleted);
    let mut lines = if rows.is_empty() { Vec::new() } else { vec![root] };
    for (account, depth) in all.filter(|(account, _)| sums.contains_key(*account)) {
        let indent = if is_tree { " ".repeat(depth as usize + 1) } else { String::new() };
        let shown = format!("{indent}{account}");
        lines.push(UsageLine { account: shown.clone(), ..sums[account].clone() });
        let own = rows.iter().filter(|row| row.project.as_deref() == Some(account)).cloned();
        let users = users(&own.collect::<Vec<_>>());
        lines.extend(users.into_iter().map(|it| UsageLine { account: shown.clone(), ..it }));
    }
    lines
}

/// A line for each user and account.
pub fn users(rows: &[UsageRow]) -> Vec<UsageLine> {
    let mut lines = BTreeMap::<(String, String), UsageLine>::new();
    for row in rows {
        let login = row.user.clone().unwrap_or_default();
        let account = row.project.clone().unwrap_or_default();
        let new =
            UsageLine { login: login.clone(), account: account.clone(), ..UsageLine::default() };
        lines.entry((login, account)).or_insert(new).add(row);
    }
    lines.into_values().collect()
}

/// The lines of the users with most usage; `is_grouped` joins the accounts of each.
pub fn top(rows: &[UsageRow], n_users: usize, is_grouped: bool) -> Vec<UsageLine> {
    let mut lines = users(rows);
    if is_grouped {
        let mut joined: Vec<UsageLine> = Vec::new();
        for line in lines {
            match joined.last_mut().filter(|last| last.login == line.login) {
                Some(last) => {
                    last.account = format!("{},{}", last.account, line.account);
                    last.used += line.used;
                    last.energy_kwh = match (last.energy_kwh, line.energy_kwh) {
                        (Some(one), Some(other)) => Some(one + other),
                        (one, other) => one.or(other),
                    };
                }
                None => joined.push(line),
            }
        }
        lines = joined;
    }
    // The sort is stable: equal usage stays in the order of names.
    lines.sort_by(|one, other| other.used.total_cmp(&one.used));
    lines.truncate(n_users);
    lines
}
