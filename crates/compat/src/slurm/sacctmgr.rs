//! `sacctmgr`: shows accounts, users and associations, which are projects and their members.
//! Commands that change them name the command of gpool.

use std::collections::BTreeSet;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored, Instead};
use gpool_cli::foreign::flag::Takes::Nothing;
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::render::safe::safe;
use gpool_cli::resolve::every_job;
use gpool_cli::session::Session;
use gpool_client::JobsQuery;
use gpool_wire::Project;

use super::cells::CLUSTER;
use super::sacctmgr_fields::{AssociationLine, FIELDS};
use super::scontrol_more;
use super::table::{Field, picked, text};
use crate::shim::{print, read, say_ignored, version};

static FLAGS: &[Flag] = &[
    row("associations", 's', Nothing, Covered, "accounts and users with their associations"),
    row("immediate", 'i', Nothing, Ignored, "it changes nothing"),
    row("json", '\0', Nothing, Instead, "gpool project list --json, with the keys of gpool"),
    row("noheader", 'n', Nothing, Covered, "no heads"),
    row("oneliner", 'o', Nothing, Covered, "one line per object"),
    row("parsable", 'p', Nothing, Covered, "| after each field"),
    row("parsable2", 'P', Nothing, Covered, "| between fields"),
    row("quiet", 'Q', Nothing, Ignored, "gpool -q prints no notes"),
    row("readonly", 'r', Nothing, Covered, "it changes nothing"),
    row("verbose", 'v', Nothing, Ignored, "gpool -v prints more"),
    row("version", 'V', Nothing, Covered, "prints gpool's"),
    row("yaml", '\0', Nothing, Instead, "gpool project list --json, with the keys of gpool"),
];

pub static SPOKEN: Spoken = Spoken {
    name: "sacctmgr",
    about: "Show projects as accounts, their users, and associations; it changes nothing",
    flags: &[FLAGS],
    words: "list WHAT [CONDITION=VALUE] [format=FIELDS]",
};

const ASSOCIATIONS: &str = "Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,\
                            GrpSubmitJobs,GrpWall,GrpTRESMins,MaxJobs,MaxTRESPerJob,\
                            MaxTRESPerNode,MaxSubmitJobs,MaxWallDurationPerJob,MaxTRESMins,QOS,\
                            DefaultQOS,GrpTRESRunMins";
const ACCOUNTS: &str = "Account,Descr,Org";
const ACCOUNTS_WITH: &str = "Account,Descr,Org,Cluster,ParentName,User,Share,Priority,GrpJobs,\
                             GrpNodes,GrpCPUs,GrpMem,GrpSubmitJobs,GrpWall,GrpCPUMins,MaxJobs,\
                             MaxNodes,MaxCPUs,MaxSubmitJobs,MaxWallDurationPerJob,MaxCPUMins,QOS,\
                             DefaultQOS";
const USERS: &str = "User,DefaultAccount,AdminLevel";
const USERS_WITH: &str = "User,DefaultAccount,AdminLevel,Cluster,Account,Partition,Share,Priority,\
                          MaxJobs,MaxNodes,MaxCPUs,MaxSubmitJobs,MaxWallDurationPerJob,MaxCPUMins,\
                          QOS,DefaultQOS";

/// Other objects: their names, fields with default widths, and rows.
type Fixed = (&'static [&'static str], &'static [Field<usize>], &'static [&'static [&'static str]]);

static OTHERS: &[Fixed] = &[
    (
        &["qos"],
        &[
            ("Name", 10, false, 0),
            ("Priority", 10, false, 1),
            ("GraceTime", 10, false, 2),
            ("Preempt", 10, false, 3),
            ("PreemptExemptTime", 19, false, 3),
            ("PreemptMode", 11, false, 4),
            ("Flags", 40, false, 3),
            ("UsageThres", 10, false, 3),
            ("UsageFactor", 11, false, 5),
            ("GrpTRES", 13, false, 3),
            ("GrpTRESMins", 13, false, 3),
            ("GrpTRESRunMins=GrpTRESRunMin", 13, false, 3),
            ("GrpJobs", 7, false, 3),
            ("GrpSubmitJobs=GrpSubmit", 9, false, 3),
            ("GrpWall", 11, false, 3),
            ("MaxTRESPerJob=MaxTRES", 13, false, 3),
            ("MaxTRESPerNode", 14, false, 3),
            ("MaxTRESMins", 13, false, 3),
            ("MaxWallDurationPerJob=MaxWall", 11, false, 3),
            ("MaxTRESPerUser=MaxTRESPU", 13, false, 3),
            ("MaxJobsPerUser=MaxJobsPU", 9, false, 3),
            ("MaxSubmitJobsPerUser=MaxSubmitPU", 11, false, 3),
            ("MaxTRESPerAccount=MaxTRESPA", 13, false, 3),
            ("MaxJobsPerAccount=MaxJobsPA", 9, false, 3),
            ("MaxSubmitJobsPerAccount=MaxSubmitPA", 11, false, 3),
            ("MinTRESPerJob=MinTRES", 13, false, 3),
            ("Description=Descr", 20, false, 0),
            ("ID", 6, false, 6),
        ],
        &[&["normal", "0", "00:00:00", "", "cluster", "1.000000", "1"]],
    ),
    (
        &["cluster", "clusters"],
        &[
            ("Cluster", 10, false, 0),
            ("ControlHost", 15, false, 1),
            ("ControlPort", 12, false, 2),
            ("RPC", 5, false, 2),
            ("Fairshare=Share", 9, false, 3),
            ("Share", 9, false, 3),
            ("GrpJobs", 7, false, 1),
            ("GrpTRES", 13, false, 1),
            ("GrpSubmitJobs=GrpSubmit", 9, false, 1),
            ("MaxJobs", 7, false, 1),
            ("MaxTRESPerJob=MaxTRES", 13, false, 1),
            ("MaxSubmitJobs=MaxSubmit", 9, false, 1),
            ("MaxWallDurationPerJob=MaxWall", 11, false, 1),
            ("QOS", 20, false, 4),
            ("DefaultQOS=Def QOS", 9, false, 1),
        ],
        &[&[CLUSTER, "", "0", "1", "normal"]],
    ),
    (
        &["tres"],
        &[("Type", 8, false, 0), ("Name", 15, false, 1), ("ID", 6, false, 2)],
        &[
            &["cpu", "", "1"],
            &["mem", "", "2"],
            &["node", "", "4"],
            &["billing", "", "5"],
            &["gres", "gpu", "1001"],
        ],
    ),
    (
        &["wckey", "wckeys"],
        &[("WCKey", 10, false, 0), ("Cluster", 10, false, 0), ("User", 10, false, 0)],
        &[],
    ),
    (
        &["event", "events"],
        &[
            ("Cluster", 10, false, 0),
            ("NodeName", 15, false, 0),
            ("TimeStart", 19, false, 0),
            ("TimeEnd", 19, false, 0),
            ("State", 6, false, 0),
            ("Reason", 30, false, 0),
            ("User", 10, false, 0),
        ],
        &[],
    ),
    (
        &["problem", "problems"],
        &[
            ("Cluster", 10, false, 0),
            ("Account", 10, false, 0),
            ("User", 10, false, 0),
            ("Problem", 40, false, 0),
        ],
        &[],
    ),
    (
        &["resource", "resources"],
        &[
            ("Name", 10, false, 0),
            ("Server", 10, false, 0),
            ("Type", 8, false, 0),
            ("Count", 6, false, 0),
            ("Allocated", 9, false, 0),
            ("ServerType", 10, false, 0),
            ("Flags", 20, false, 0),
        ],
        &[],
    ),
    (
        &["federation", "federations"],
        &[("Federation", 10, false, 0), ("Cluster", 10, false, 0), ("FedState", 20, false, 0)],
        &[],
    ),
];

/// Verbs that change something: the object, or any, and the command of gpool.
const CHANGES: [(&str, &str, &str); 12] = [
    ("add", "account", "gpool project create NAME"),
    ("add", "user", "gpool project edit PROJECT --members USER,…"),
    ("modify", "account", "gpool project edit NAME --limit N"),
    ("modify", "user", "gpool user limit USER"),
    ("modify", "qos", "gpool policy set NAME=VALUE"),
    ("delete", "account", "gpool project delete NAME"),
    ("delete", "user", "gpool project edit PROJECT --members USER,…"),
    ("add", "", "gpool project create NAME"),
    ("modify", "", "gpool project edit NAME"),
    ("delete", "", "gpool project delete NAME"),
    ("load", "", "gpool project apply FILE"),
    ("dump", "", "gpool project list --json"),
];

/// Runs the command.
///
/// # Errors
/// A word is not valid, it would change something, or the server can't be asked.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    let mut said_words = args.words.iter().map(String::as_str);
    let verb = said_words.next().unwrap_or_default().to_ascii_lowercase();
    match verb.as_str() {
        "list" | "show" | "get" => {}
        "version" => return print(&format!("{}\n", version("sacctmgr")), session),
        "ping" => return scontrol_more::ping(session),
        other => return Err(refused(other, said_words.next().unwrap_or_default())),
    }
    let what = said_words.next().unwrap_or_default().to_ascii_lowercase();
    let conditions = Conditions::of(said_words)?;
    match what.as_str() {
        "association" | "associations" | "assoc" | "assocs" | "account" | "accounts" | "acct"
        | "user" | "users" => print(&listed(&what, &conditions, &args, session)?, session),
        "configuration" | "config" => scontrol_more::config(session),
        "reservation" | "reservations" => scontrol_more::reservations(&[], session),
        "runawayjob" | "runawayjobs" => {
            print(&format!("Runaway Jobs: No runaway jobs found on cluster {CLUSTER}\n"), session)
        }
        "transaction" | "transactions" => {
            Err(Failure::new(errors::NO_SUCH_VERB, "sacctmgr of gpool has no transactions")
                .tip("gpool audit"))
        }
        other => fixed(other, &args, &conditions, session),
    }
}

/// The conditions after the object.
#[derive(Default)]
struct Conditions {
    format: Option<String>,
    accounts: Vec<String>,
    users: Vec<String>,
    names: Vec<String>,
    with_associations: bool,
    is_tree: bool,
}

impl Conditions {
    /// Parses `where user=ana format=Account%20 withassoc tree`; a plain word is a name.
    fn of<'w>(words: impl Iterator<Item = &'w str>) -> Result<Self> {
        let mut found = Self::default();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let list = || value.split(',').map(|it| it.trim_matches(['\'', '"']).to_owned());
            match (key.to_ascii_lowercase().as_str(), word.contains('=')) {
                ("where" | "set", false) => {}
                ("withassoc" | "withassociations" | "withcoordinator", false) => {
                    found.with_associations = true;
                }
                ("tree", false) => found.is_tree = true,
                (
                    "wopinfo" | "wolimits" | "onlydefaults" | "withdeleted" | "withrawqoslevel"
                    | "withsubaccounts" | "withclusters",
                    false,
                ) => {}
                ("format", true) => found.format = Some(value.to_owned()),
                ("account" | "accounts" | "acct", true) => found.accounts.extend(list()),
                ("user" | "users", true) => found.users.extend(list()),
                ("name" | "names", true) => found.names.extend(list()),
                (
                    "cluster" | "clusters" | "qos" | "partition" | "partitions" | "defaultaccount"
                    | "start" | "end" | "nodes" | "id" | "parent",
                    true,
                ) => {}
                (_, true) => {
                    let what = format!("sacctmgr: there is no condition {word:?}");
                    return Err(Failure::new(errors::USAGE, what)
                        .tip("sacctmgr list associations user=ana account=vision"));
                }
                (_, false) => found.names.push(word.to_owned()),
            }
        }
        Ok(found)
    }
}

fn is_one(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|it| it == name)
}

/// The table of accounts, users or associations.
fn listed(
    what: &str,
    conditions: &Conditions,
    args: &ParsedArgs,
    session: &Session,
) -> Result<String> {
    let client = session.client()?;
    let projects = client.projects()?.items;
    let me = client.me()?;
    let admins: BTreeSet<&str> = me.user.as_deref().filter(|_| me.admin).into_iter().collect();
    let users = users(conditions, &projects, what.starts_with("user"), session)?;
    let all = associations(&projects, &users, &admins, conditions.is_tree);
    let with = conditions.with_associations || args.has("associations");
    let (usual, lines): (&str, Vec<AssociationLine<'_>>) = match what.get(..4).unwrap_or_default() {
        "user" => {
            let of_users = all.into_iter().filter(|it| it.user.is_some());
            let mut lines: Vec<AssociationLine<'_>> = of_users
                .filter(|it| is_one(&conditions.names, it.user.as_deref().unwrap_or_default()))
                .collect();
            lines.sort_by(|a, b| a.user.cmp(&b.user));
            if !with {
                lines.dedup_by(|a, b| a.user == b.user);
            }
            (if with { USERS_WITH } else { USERS }, lines)
        }
        "acco" | "acct" => {
            let is_meant = |it: &AssociationLine<'_>| {
                is_one(&conditions.names, it.account()) && (with || it.user.is_none())
            };
            let lines = all.into_iter().filter(is_meant).collect();
            (if with { ACCOUNTS_WITH } else { ACCOUNTS }, lines)
        }
        _ => (ASSOCIATIONS, all),
    };
    let is_meant = |line: &&AssociationLine<'_>| {
        let user = line.user.as_deref();
        is_one(&conditions.accounts, line.account())
            && (conditions.users.is_empty()
                || user.is_some_and(|user| is_one(&conditions.users, user)))
    };
    let lines: Vec<AssociationLine<'_>> = lines.iter().filter(is_meant).cloned().collect();
    let format = conditions.format.as_deref().unwrap_or(usual);
    let picked = picked("sacctmgr", format, FIELDS)?;
    Ok(text(args, &picked, &lines, |of, line| safe(&of(line)).into_owned()))
}

/// The users: members of projects, owners of jobs, the caller, and those that the caller names.
fn users(
    conditions: &Conditions,
    projects: &[Project],
    names_are_users: bool,
    session: &Session,
) -> Result<BTreeSet<String>> {
    let members = projects.iter().flat_map(|it| it.members.iter().flatten().chain(&it.admins));
    let is_user = |name: &&String| !name.starts_with('@') && name.as_str() != "all";
    let mut users: BTreeSet<String> = members.filter(is_user).cloned().collect();
    users.insert(session.me().to_owned());
    let jobs = every_job(&session.client()?, &JobsQuery::default())?;
    users.extend(jobs.into_iter().map(|job| job.user));
    users.extend(conditions.users.iter().cloned());
    users.extend(conditions.names.iter().filter(|_| names_are_users).cloned());
    Ok(users)
}

/// The accounts in the order of the tree, each with the users that may charge it.
fn associations<'p>(
    projects: &'p [Project],
    users: &BTreeSet<String>,
    admins: &BTreeSet<&str>,
    is_tree: bool,
) -> Vec<AssociationLine<'p>> {
    let root = AssociationLine { project: None, user: None, is_admin: false, depth: 0, is_tree };
    let mut lines = vec![root.clone()];
    let mut below: Vec<(&Project, usize)> =
        projects.iter().rev().filter(|it| it.parent.is_none()).map(|it| (it, 1)).collect();
    while let Some((project, depth)) = below.pop() {
        let account = AssociationLine { project: Some(project), depth, ..root.clone() };
        lines.push(account.clone());
        let named = project.members.as_ref().filter(|it| !it.iter().any(|it| it == "all"));
        let may = |user: &&String| match named {
            None => true,
            Some(members) => members.contains(user) || project.admins.contains(user),
        };
        lines.extend(users.iter().filter(may).map(|user| AssociationLine {
            user: Some(user.clone()),
            is_admin: admins.contains(user.as_str()),
            depth: depth + 1,
            ..account.clone()
        }));
        let children = projects.iter().rev().filter(|it| it.parent.as_ref() == Some(&project.name));
        below.extend(children.map(|child| (child, depth + 1)));
    }
    lines
}

/// Objects that are always the same here.
fn fixed(what: &str, args: &ParsedArgs, conditions: &Conditions, session: &Session) -> Result {
    let Some((_, fields, rows)) = OTHERS.iter().find(|(names, ..)| names.contains(&what)) else {
        let known = OTHERS.iter().filter_map(|(names, ..)| names.first().copied());
        let known: Vec<&str> =
            ["association", "account", "user"].into_iter().chain(known).collect();
        let what = format!("sacctmgr of gpool can't list {what:?}");
        return Err(Failure::new(errors::NO_SUCH_VERB, what)
            .why(format!("the choices are {}, configuration, reservation", known.join(", "))));
    };
    // Without a format, each column once.
    let mut names: Vec<&str> = fields.iter().map(|(name, ..)| *name).collect();
    names.retain(|name| !["Share", "ID", "Description=Descr"].contains(name) || what == "tres");
    let usual: Vec<&str> = names.iter().filter_map(|name| name.split('=').next()).collect();
    let usual = usual.join(",");
    let picked = picked("sacctmgr", conditions.format.as_deref().unwrap_or(&usual), fields)?;
    let rows: Vec<&&[&str]> =
        rows.iter().filter(|row| is_one(&conditions.names, row.first().unwrap_or(&""))).collect();
    let cell = |at: usize, row: &&&[&str]| row.get(at).copied().unwrap_or_default().to_owned();
    print(&text(args, &picked, &rows, cell), session)
}

fn refused(verb: &str, what: &str) -> Failure {
    let theirs = match verb {
        "create" | "add" => "add",
        "remove" | "delete" => "delete",
        other => other,
    };
    let what = what.to_ascii_lowercase();
    let change = CHANGES.iter().find(|(known, of, _)| {
        *known == theirs && (of.is_empty() || what.trim_end_matches('s') == *of)
    });
    match change {
        Some((_, _, ours)) => {
            let what = format!("sacctmgr of gpool changes nothing, so it has no {verb:?}");
            Failure::new(errors::NO_SUCH_VERB, what).why("accounts are projects").tip(*ours)
        }
        None => {
            let what = match verb {
                "" => "sacctmgr: the command is missing".to_owned(),
                verb => format!("sacctmgr of gpool has no command {verb:?}"),
            };
            Failure::new(errors::NO_SUCH_VERB, what).tip("sacctmgr list associations")
        }
    }
}
