//! `sshare`: weights, recent usage and fair shares of projects and their users.

use std::collections::BTreeMap;

use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::foreign::flag::FlagSupport::{Approximated, Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_model::{Millis, Timestamp, parse};
use gpool_wire::usage::{UsageParams, UsageRow};
use gpool_wire::{PolicyInfo, Project, QuotaOverview, QuotaRow, Time};

use super::table::{Field, picked, text};
use crate::shim::{print, read, say_ignored};

static FLAGS: &[Flag] = &[
    row("accounts", 'A', Value, Covered, "of these projects"),
    row("all", 'a', Nothing, Covered, "of all users; otherwise only mine"),
    row("clusters", 'M', Value, Ignored, "a server has one cluster"),
    row("format", 'o', Value, Approximated, "the fields of --helpformat, NAME%WIDTH"),
    row("helpformat", 'e', Nothing, Covered, "lists the fields"),
    row("json", '\0', Nothing, Instead, "gpool quota --json, with the keys of gpool"),
    row("long", 'l', Nothing, Covered, "more fields"),
    row("noheader", 'n', Nothing, Covered, "no heads"),
    row("parsable", 'p', Nothing, Covered, "| after each field"),
    row("parsable2", 'P', Nothing, Covered, "| between fields"),
    row("partition", 'm', Nothing, Ignored, "projects are not split by pool"),
    row("usage", '\0', Nothing, Instead, "--help"),
    row("user", 'u', Value, Covered, "of these users").also(&["users", "uid"]),
    row("Users", 'U', Nothing, Covered, "only users"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Nothing, Instead, "gpool quota --json, with the keys of gpool"),
];

pub static SPOKEN: Spoken = Spoken {
    name: "sshare",
    about: "Show weights, recent GPU time and fair shares of projects",
    flags: &[FLAGS],
    words: "",
};

const USUAL: &str = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";
const LONG: &str = "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,\
                    LevelFS,GrpTRESMins,TRESRunMins";

#[derive(Debug, Clone, Copy)]
enum Cell {
    Account,
    Cluster,
    FairShare,
    LevelFs,
    NormShares,
    NormUsage,
    RawShares,
    RawUsage,
    User,
    /// A field that gpool does not have.
    Absent,
}

static FIELDS: &[Field<Cell>] = &[
    ("Account", 20, true, Cell::Account),
    ("Cluster", 10, false, Cell::Cluster),
    ("EffectvUsage", 13, false, Cell::NormUsage),
    ("FairShare", 10, false, Cell::FairShare),
    ("GrpTRESMins", 30, false, Cell::Absent),
    ("GrpTRESRaw", 30, false, Cell::Absent),
    ("ID", 6, false, Cell::Absent),
    ("LevelFS", 10, false, Cell::LevelFs),
    ("NormShares", 11, false, Cell::NormShares),
    ("NormUsage", 11, false, Cell::NormUsage),
    ("Partition", 12, false, Cell::Absent),
    ("RawShares", 10, false, Cell::RawShares),
    ("RawUsage", 11, false, Cell::RawUsage),
    ("TRESRunMins", 30, false, Cell::Absent),
    ("User", 10, false, Cell::User),
];

/// A line: the root, a project, or a user of a project.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ShareLine {
    /// The project, or `root`.
    pub account: String,
    /// The user, in the line of one.
    pub user: Option<String>,
    /// The number of lines above it in the tree.
    pub depth: u32,
    /// The weight, or that users have none.
    pub weight: String,
    /// Its part of the weights, in all levels.
    pub shares: f64,
    /// Its part of the weights of its level.
    pub level_shares: f64,
    /// Recent usage in hours of one GPU.
    pub used: f64,
    /// Its part of all recent usage.
    pub part: f64,
    /// Its part of the recent usage of its level.
    pub level_part: f64,
    /// Its fair share as a part of all GPUs, where projects share them.
    pub fair: Option<f64>,
}

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    if args.has("helpformat") {
        let names: Vec<&str> = FIELDS.iter().map(|(name, ..)| *name).collect();
        return print(&format!("{}\n", names.join(" ")), session);
    }
    say_ignored(&args, session);
    let usual = if args.has("long") { LONG } else { USUAL };
    let format = args.value("format").unwrap_or(usual);
    let picked =
        picked("sshare", format, FIELDS).map_err(|failure| failure.tip("sshare --helpformat"))?;
    let client = session.client()?;
    let policy = client.policy()?;
    let used = used_by_user(&client, &policy, session.view().now)?;
    let projects = client.projects()?.items;
    let is_split = policy.settings.get("share_between").is_some_and(|it| it == "users");
    let mut lines = lines(&client.quota()?, &projects, &used, is_split);
    lines.retain(|line| is_wanted(line, &args, session.me()));
    print(&text(&args, &picked, &lines, cell), session)
}

fn is_wanted(line: &ShareLine, said: &ParsedArgs, me: &str) -> bool {
    let users: Vec<&str> = said.list("user").collect();
    let is_user = match &line.user {
        None => !said.has("Users"),
        Some(user) if users.is_empty() => said.has("all") || user == me,
        Some(user) => users.contains(&user.as_str()),
    };
    let mut accounts = said.list("accounts").peekable();
    is_user && (accounts.peek().is_none() || accounts.any(|it| it == line.account))
}

fn cell(cell: Cell, line: &ShareLine) -> String {
    let part = |part: f64| format!("{part:.6}");
    match cell {
        Cell::Account => {
            format!("{}{}", " ".repeat(line.depth as usize), safe(&line.account))
        }
        Cell::Cluster => "gpool".to_owned(),
        Cell::FairShare => line.fair.map_or_else(String::new, part),
        Cell::LevelFs if line.depth == 0 => String::new(),
        Cell::LevelFs if line.level_part > 0.0 => part(line.level_shares / line.level_part),
        Cell::LevelFs => "inf".to_owned(),
        Cell::NormShares => part(line.shares),
        Cell::NormUsage => part(line.part),
        Cell::RawShares => line.weight.clone(),
        Cell::RawUsage => format!("{:.0}", line.used * 3600.0),
        Cell::User => line.user.as_deref().map_or_else(String::new, |it| safe(it).into_owned()),
        Cell::Absent => String::new(),
    }
}

/// The recorded GPU time of users by project, as much of it as counts after the half-life.
pub type UsedByUser = BTreeMap<String, BTreeMap<String, f64>>;

fn used_by_user(client: &Client, policy: &PolicyInfo, now: Time) -> Result<UsedByUser> {
    /// After this many half-lives, less than a thousandth counts.
    const HALF_LIVES: u64 = 10;
    let half_life = policy.settings.get("use_half_life").and_then(|it| parse::span(it).ok());
    let half_life = half_life.unwrap_or(Millis::from_hours(24 * 7));
    let length = half_life.get().saturating_mul(HALF_LIVES);
    let since = Time(Timestamp::new(now.0.get().saturating_sub(length)));
    let step = if half_life < Millis::from_hours(24) { "hour" } else { "day" };
    let (by, step) = (Some("project,user".to_owned()), Some(step.to_owned()));
    let asked = UsageParams { by, since: Some(since), step, ..UsageParams::default() };
    Ok(decayed(&client.usage(&asked)?, half_life, now))
}

/// Sums up rows of a report over time, each with the part that counts at `now`.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn decayed(rows: &[UsageRow], half_life: Millis, now: Time) -> UsedByUser {
    let mut used = UsedByUser::new();
    for row in rows {
        let (Some(project), Some(user)) = (&row.project, &row.user) else { continue };
        let halvings = now.0.since(row.start.0).get() as f64 / half_life.get().max(1) as f64;
        let users = used.entry(project.clone()).or_default();
        *users.entry(user.clone()).or_default() += row.gpu_hours * 0.5_f64.powf(halvings);
    }
    used
}

/// The root, and each project followed by its users. The users divide the usage of their project.
/// `is_split` is whether the policy divides the share of a project between them.
pub fn lines(
    quota: &QuotaOverview,
    projects: &[Project],
    used: &UsedByUser,
    is_split: bool,
) -> Vec<ShareLine> {
    let weights: BTreeMap<&str, f64> =
        projects.iter().map(|it| (it.name.as_str(), it.weight)).collect();
    let weight = |row: &QuotaRow| weights.get(row.project.as_str()).copied().unwrap_or(1.0);
    let level = |of: &QuotaRow| {
        let siblings = quota.projects.iter().filter(|it| it.parent == of.parent);
        siblings.fold((0.0, 0.0), |(shares, used), it| (shares + weight(it), used + it.used))
    };
    let tops = quota.projects.iter().filter(|row| row.parent.is_none());
    let all: f64 = tops.map(|row| row.used).sum();
    let root = ShareLine {
        account: "root".to_owned(),
        weight: "1".to_owned(),
        shares: 1.0,
        used: all,
        part: part(all, all),
        fair: quota.shared.then_some(1.0),
        ..ShareLine::default()
    };
    let mut lines = vec![root];
    let mut shares_of = BTreeMap::<&str, f64>::new();
    for row in &quota.projects {
        let (level_shares, level_used) = level(row);
        let above = row.parent.as_deref().and_then(|it| shares_of.get(it)).copied();
        let level_shares = part(weight(row), level_shares);
        let shares = above.unwrap_or(1.0) * level_shares;
        shares_of.insert(&row.project, shares);
        let line = ShareLine {
            account: row.project.clone(),
            user: None,
            depth: row.depth + 1,
            weight: weight(row).to_string(),
            shares,
            level_shares,
            used: row.used,
            part: part(row.used, all),
            level_part: part(row.used, level_used),
            fair: row.share.map(|share| part(share, quota.gpus)),
        };
        let users = used.get(&row.project).map(|users| users_of(&line, users, all, is_split));
        lines.push(line);
        lines.extend(users.into_iter().flatten());
    }
    lines
}

fn part(one: f64, all: f64) -> f64 {
    if all > 0.0 { one / all } else { 0.0 }
}

/// The lines of a project's users. `all` is the usage of all projects.
fn users_of(
    line: &ShareLine,
    users: &BTreeMap<String, f64>,
    all: f64,
    is_split: bool,
) -> Vec<ShareLine> {
    let sum: f64 = users.values().sum();
    #[expect(clippy::cast_precision_loss, reason = "a number of users")]
    let n_users = users.len() as f64;
    let one = |(user, hours): (&String, &f64)| {
        let share = part(*hours, sum);
        let used = line.used * share;
        let own =
            ShareLine { user: Some(user.clone()), depth: line.depth + 1, used, ..line.clone() };
        match is_split {
            true => ShareLine {
                weight: "1".to_owned(),
                shares: line.shares / n_users,
                level_shares: 1.0 / n_users,
                part: part(used, all),
                level_part: share,
                fair: None,
                ..own
            },
            // As in Slurm, users without shares of their own have those of their account.
            false => ShareLine { weight: "parent".to_owned(), ..own },
        }
    };
    users.iter().map(one).collect()
}
