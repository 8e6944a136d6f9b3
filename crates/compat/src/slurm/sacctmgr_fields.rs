//! The fields of accounts, users and associations in `sacctmgr`, from projects and their members.
//!
//! Source: the manual of sacctmgr 24.11, and its output for fields without a value.

use gpool_wire::Project;

use super::cells::CLUSTER;
use super::table::Field;
use super::times::long_time;

/// The account above all projects.
pub const ROOT: &str = "root";

/// A line: an account, or a user of an account.
#[derive(Debug, Clone)]
pub struct AssociationLine<'p> {
    /// The project; `None` is the account above all projects.
    pub project: Option<&'p Project>,
    /// The user, in the line of one.
    pub user: Option<String>,
    /// Whether the user is an admin of the server.
    pub is_admin: bool,
    /// The number of accounts above it.
    pub depth: usize,
    /// Whether the depth is shown.
    pub is_tree: bool,
}

impl AssociationLine<'_> {
    #[must_use]
    pub fn account(&self) -> &str {
        self.project.map_or(ROOT, |project| &project.name)
    }
}

pub type Cell = fn(&AssociationLine<'_>) -> String;

pub static FIELDS: &[Field<Cell>] = &[
    ("Account", 10, false, account),
    ("Cluster", 10, false, cluster),
    ("Comment", 20, false, nothing),
    ("DefaultAccount=Def Acct", 10, false, default_account),
    ("DefaultQOS=Def QOS", 9, false, nothing),
    ("DefaultWCKey=Def WCKey", 10, false, nothing),
    ("Descr", 20, false, description),
    ("Fairshare=Share", 9, false, weight),
    ("Flags", 20, false, none_flags),
    ("GrpCPUMins", 11, false, nothing),
    ("GrpCPURunMins", 13, false, nothing),
    ("GrpCPUs", 8, false, nothing),
    ("GrpJobs", 7, false, most_jobs),
    ("GrpJobsAccrue", 13, false, nothing),
    ("GrpMem", 7, false, nothing),
    ("GrpNodes", 8, false, nothing),
    ("GrpSubmitJobs=GrpSubmit", 9, false, nothing),
    ("GrpTRES", 13, false, most_resources),
    ("GrpTRESMins", 13, false, nothing),
    ("GrpTRESRunMins=GrpTRESRunMin", 13, false, nothing),
    ("GrpWall", 11, false, nothing),
    ("ID", 6, false, nothing),
    ("Lineage", 20, false, lineage),
    ("MaxCPUMins", 11, false, nothing),
    ("MaxCPUs", 8, false, nothing),
    ("MaxJobs", 7, false, most_jobs_of_user),
    ("MaxJobsAccrue", 13, false, nothing),
    ("MaxNodes", 8, false, nothing),
    ("MaxSubmitJobs=MaxSubmit", 9, false, most_pending_of_user),
    ("MaxTRESMins", 13, false, nothing),
    ("MaxTRESPerJob=MaxTRES", 13, false, most_resources_of_user),
    ("MaxTRESPerNode", 14, false, nothing),
    ("MaxTRESRunMins=MaxTRESRunMin", 13, false, nothing),
    ("MaxWallDurationPerJob=MaxWall", 11, false, longest),
    ("Org", 20, false, organization),
    ("ParentID", 6, false, nothing),
    ("ParentName", 10, false, parent),
    ("Partition", 10, false, nothing),
    ("Priority", 10, false, priority),
    ("QOS", 20, false, qos),
    ("RGT", 6, false, nothing),
    ("Share", 9, false, weight),
    ("User", 10, false, user),
    ("WithDeleted", 6, false, nothing),
    ("AdminLevel=Admin", 9, false, admin),
    ("Coordinators=Coord Accounts", 20, false, coordinator),
];

fn nothing(_: &AssociationLine<'_>) -> String {
    String::new()
}

fn account(line: &AssociationLine<'_>) -> String {
    let blanks = if line.is_tree { line.depth } else { 0 };
    format!("{}{}", " ".repeat(blanks), line.account())
}

fn cluster(_: &AssociationLine<'_>) -> String {
    CLUSTER.to_owned()
}

/// The project of jobs that name none.
fn default_account(_: &AssociationLine<'_>) -> String {
    "default".to_owned()
}

fn description(line: &AssociationLine<'_>) -> String {
    match line.project {
        None => "default root account".to_owned(),
        Some(project) => project.name.clone(),
    }
}

fn organization(line: &AssociationLine<'_>) -> String {
    line.project.and_then(|project| project.parent.clone()).unwrap_or_else(|| ROOT.to_owned())
}

fn weight(line: &AssociationLine<'_>) -> String {
    match (line.project, &line.user) {
        (Some(project), None) => project.weight.to_string(),
        _ => "1".to_owned(),
    }
}

fn none_flags(_: &AssociationLine<'_>) -> String {
    "None".to_owned()
}

fn lineage(line: &AssociationLine<'_>) -> String {
    match (line.project, &line.user) {
        (None, _) => "/".to_owned(),
        (Some(project), None) => format!("/{}/", project.name),
        (Some(project), Some(user)) => format!("/{}/0-{user}/", project.name),
    }
}

/// A setting of the project, in the line of the account.
fn of_account(line: &AssociationLine<'_>, of: impl Fn(&Project) -> Option<String>) -> String {
    line.project.filter(|_| line.user.is_none()).and_then(of).unwrap_or_default()
}

/// A setting of the project for each user.
fn of_users(line: &AssociationLine<'_>, of: impl Fn(&Project) -> Option<String>) -> String {
    line.project.and_then(of).unwrap_or_default()
}

fn most_jobs(line: &AssociationLine<'_>) -> String {
    of_account(line, |project| Some(project.jobs_limit?.to_string()))
}

fn most_resources(line: &AssociationLine<'_>) -> String {
    of_account(line, |project| {
        let gpus = project.limit.as_ref().map(|limit| format!("gres/gpu={limit}"));
        let cpus = project.cpus_limit.as_ref().map(|limit| format!("cpu={limit}"));
        let memory = project.mem_limit.as_ref().map(|limit| format!("mem={limit}"));
        let all: Vec<String> = [cpus, memory, gpus].into_iter().flatten().collect();
        Some(all.join(","))
    })
}

fn most_jobs_of_user(line: &AssociationLine<'_>) -> String {
    of_users(line, |project| Some(project.user_running?.to_string()))
}

fn most_pending_of_user(line: &AssociationLine<'_>) -> String {
    of_users(line, |project| Some(project.user_pending?.to_string()))
}

fn most_resources_of_user(line: &AssociationLine<'_>) -> String {
    of_users(line, |project| Some(format!("gres/gpu={}", project.user_gpus.as_ref()?)))
}

fn longest(line: &AssociationLine<'_>) -> String {
    of_users(line, |project| {
        let seconds = gpool_cli::render::clock::span(project.time_max_s?).get() / 1000;
        Some(long_time(seconds))
    })
}

fn parent(line: &AssociationLine<'_>) -> String {
    match (line.project, &line.user) {
        (Some(project), None) => project.parent.clone().unwrap_or_else(|| ROOT.to_owned()),
        _ => String::new(),
    }
}

fn priority(line: &AssociationLine<'_>) -> String {
    of_account(line, |project| {
        Some(project.priority).filter(|it| *it != 0).map(|it| it.to_string())
    })
}

fn qos(_: &AssociationLine<'_>) -> String {
    "normal".to_owned()
}

fn user(line: &AssociationLine<'_>) -> String {
    line.user.clone().unwrap_or_default()
}

fn admin(line: &AssociationLine<'_>) -> String {
    if line.is_admin { "Administrator" } else { "None" }.to_owned()
}

/// The account that the user may manage.
fn coordinator(line: &AssociationLine<'_>) -> String {
    let manages =
        |project: &&Project| line.user.as_ref().is_some_and(|it| project.admins.contains(it));
    line.project.filter(manages).map(|project| project.name.clone()).unwrap_or_default()
}
