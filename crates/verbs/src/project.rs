//! `gpool project`: projects, their quotas and their members.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::errors::{INVALID, USAGE};
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{self, Listing, show};
use gpool_cli::render::json;
use gpool_cli::render::list::select;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::count;
use gpool_cli::session::Session;
use gpool_model::Refusal;
use gpool_wire::project_parts::Parts;
use gpool_wire::{ProjectSet, ProjectSettings, ProjectsAnswer, Quantity};
use serde::Deserialize;

use crate::render::projects::{PROJECTS, difference, page};
use crate::toml_file;

#[derive(Debug, Clone, Args)]
pub struct ProjectArgs {
    #[command(subcommand)]
    verb: ProjectAction,
}

#[derive(Debug, Clone, Subcommand)]
enum ProjectAction {
    /// Create a project
    Create(Box<ChangeArgs>),
    /// Change some settings of a project
    Edit(Box<EditArgs>),
    /// Delete projects without jobs and without projects below them
    Delete {
        /// Projects to delete
        #[arg(required = true, value_name = "PROJECT")]
        names: Vec<String>,
        /// Version that the project must have, or the change is refused
        #[arg(long, value_name = "N")]
        if_version: Option<u64>,
    },
    /// List projects, each department before its projects
    List(ListFlags),
    /// Show projects in full
    Show {
        /// Projects to show
        #[arg(required = true, value_name = "PROJECT")]
        names: Vec<String>,
    },
    /// Make projects match a file, all or none
    Apply(ApplyArgs),
}

#[derive(Debug, Clone, Args)]
struct ChangeArgs {
    /// Name of the project
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    settings: SettingFlags,
}

#[derive(Debug, Clone, Args)]
struct EditArgs {
    /// Project to change
    #[arg(value_name = "PROJECT")]
    edited: String,
    #[command(flatten)]
    settings: SettingFlags,
    /// Version that the project must have, or the change is refused
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,
}

#[derive(Debug, Clone, Args)]
struct ApplyArgs {
    /// TOML file with a table [projects.NAME] for each; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Delete projects that the file does not name, except default
    #[arg(long)]
    prune: bool,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Default, Args)]
struct SettingFlags {
    /// Parent project, or none
    #[arg(long, value_name = "PROJECT")]
    parent: Option<String>,
    /// Guaranteed GPUs, e.g. 4, 0.5, unlimited or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    gpus: Option<String>,
    /// Maximum number of GPUs, e.g. 8, or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    limit: Option<String>,
    /// Share of the GPUs that no project is guaranteed, relative to others (default: 1)
    #[arg(long, value_name = "W", allow_hyphen_values = true)]
    weight: Option<String>,
    /// Priority among its siblings; higher goes first
    #[arg(long, visible_alias = "prio", value_name = "P", allow_hyphen_values = true)]
    priority: Option<i32>,
    /// Guaranteed CPU cores (default: unlimited)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cpus: Option<String>,
    /// Maximum number of CPU cores
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    cpus_limit: Option<String>,
    /// Guaranteed memory, e.g. 500G (default: unlimited)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    mem: Option<String>,
    /// Maximum memory
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    mem_limit: Option<String>,
    /// Maximum number of running tasks
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    jobs_limit: Option<String>,
    /// Guaranteed GPUs of one model, e.g. h100=4,a100=2; h100=none removes it
    #[arg(long, value_name = "MODEL=N", value_delimiter = ',', allow_hyphen_values = true)]
    gpus_of: Vec<String>,
    /// Maximum number of GPUs of one model, e.g. h100=8
    #[arg(long, value_name = "MODEL=N", value_delimiter = ',', allow_hyphen_values = true)]
    limit_of: Vec<String>,
    /// Guaranteed GPUs in one pool, e.g. batch=4
    #[arg(long, value_name = "POOL=N", value_delimiter = ',', allow_hyphen_values = true)]
    gpus_in: Vec<String>,
    /// Maximum number of GPUs in one pool, e.g. batch=8
    #[arg(long, value_name = "POOL=N", value_delimiter = ',', allow_hyphen_values = true)]
    limit_in: Vec<String>,
    /// Minimum run time of a job before other projects can reclaim its GPUs, or none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    min_runtime: Option<String>,
    /// Minimum run time of a job before jobs of this project can preempt it, or none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    min_runtime_own: Option<String>,
    /// Maximum time for a victim of this project to save and end, or none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    save_time_max: Option<String>,
    /// Users that can submit to it, e.g. ana,bo,@group; all for those of its parent
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    members: Option<Vec<String>>,
    /// Users and groups that manage its jobs and the projects below it, e.g. ana,@it; '' for none
    #[arg(long, value_name = "USERS", value_delimiter = ',')]
    admins: Option<Vec<String>>,
    /// Time limit of jobs without one, or none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    time_default: Option<String>,
    /// Longest time limit of its jobs, or none
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    time_max: Option<String>,
    /// Make its jobs preemptible by default, so they may borrow GPUs
    #[arg(long, overrides_with = "no_preemptible")]
    preemptible: bool,
    /// Make its jobs non-preemptible by default
    #[arg(long, overrides_with = "preemptible")]
    no_preemptible: bool,
    /// Maximum number of waiting jobs of one user, or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    user_pending: Option<String>,
    /// Maximum number of running jobs of one user, here and in projects below, or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    user_running: Option<String>,
    /// Maximum number of GPUs of one user, here and in projects below, or none
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    user_gpus: Option<String>,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
}

impl SettingFlags {
    fn settings(&self) -> Result<ProjectSettings> {
        let written = |text: &Option<String>| text.clone().map(Quantity::Text);
        let names = |words: &Option<Vec<String>>| {
            let words = words.clone()?;
            Some(words.into_iter().filter(|word| !word.is_empty()).collect())
        };
        Ok(ProjectSettings {
            name: None,
            parent: self.parent.clone(),
            gpus: written(&self.gpus),
            limit: written(&self.limit),
            gpus_of: parts("--gpus-of h100=4", &self.gpus_of)?,
            limit_of: parts("--limit-of h100=8", &self.limit_of)?,
            gpus_in: parts("--gpus-in batch=4", &self.gpus_in)?,
            limit_in: parts("--limit-in batch=8", &self.limit_in)?,
            weight: written(&self.weight),
            cpus: written(&self.cpus),
            cpus_limit: written(&self.cpus_limit),
            mem: written(&self.mem),
            mem_limit: written(&self.mem_limit),
            jobs_limit: written(&self.jobs_limit),
            priority: self.priority,
            min_runtime: written(&self.min_runtime),
            min_runtime_own: written(&self.min_runtime_own),
            save_time_max: written(&self.save_time_max),
            members: names(&self.members),
            admins: names(&self.admins),
            time_default: written(&self.time_default),
            time_max: written(&self.time_max),
            preemptible: (self.preemptible || self.no_preemptible).then_some(self.preemptible),
            user_pending: written(&self.user_pending),
            user_running: written(&self.user_running),
            user_gpus: written(&self.user_gpus),
            dry_run: self.dry_run,
        })
    }
}

/// Parses amounts by model or by pool; no key may repeat.
fn parts(example: &str, words: &[String]) -> Result<Parts> {
    let mut parts = Parts::new();
    for word in words {
        let flag = example.split(' ').next().unwrap_or(example);
        let shown: String = word.chars().take(80).collect();
        let refused = |why: &str| {
            let what = format!("{flag} {}: {why}", safe(&shown));
            Failure::new(INVALID, what).tip(example.to_owned())
        };
        let (name, amount) =
            word.split_once('=').ok_or_else(|| refused("the amount after = is missing"))?;
        let amount = Quantity::Text(amount.trim().to_owned());
        if parts.insert(name.trim().to_owned(), amount).is_some() {
            return Err(refused("it is given twice"));
        }
    }
    Ok(parts)
}

/// Runs the verb.
pub fn run(args: ProjectArgs, session: &Session) -> Result {
    match args.verb {
        ProjectAction::Create(args) => {
            let settings = args.settings.settings()?;
            let settings = ProjectSettings { name: Some(args.name), ..settings };
            tell(&session.client()?.create_project(&settings)?, session)
        }
        ProjectAction::Edit(args) => {
            let settings = args.settings.settings()?;
            if settings == (ProjectSettings { dry_run: settings.dry_run, ..Default::default() }) {
                let what = "there is nothing to change";
                let name = &args.edited;
                return Err(Failure::new(USAGE, what)
                    .tip(format!("gpool project edit {} --gpus 4", safe(name))));
            }
            let client = session.client()?;
            tell(&client.edit_project(&args.edited, &settings, args.if_version)?, session)
        }
        ProjectAction::Delete { names, if_version } => {
            let client = session.client()?;
            for name in names {
                tell(&client.delete_project(&name, if_version)?, session)?;
            }
            Ok(Exit::OK)
        }
        ProjectAction::List(flags) => list(&flags, session),
        ProjectAction::Show { names } => pages(&names, session),
        ProjectAction::Apply(args) => apply(&args, session),
    }
}

/// Prints the changes with the server's notes.
fn tell(answer: &ProjectsAnswer, session: &Session) -> Result {
    if session.global.json {
        session.screen.data(&json::one(answer))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&difference(answer))?;
    warn(answer, session);
    if !answer.done {
        session.screen.note("nothing changed: this was a dry run");
    }
    Ok(Exit::OK)
}

fn warn(answer: &ProjectsAnswer, session: &Session) {
    for warning in &answer.warnings {
        session.screen.note(&format!("note: {}", safe(warning)));
    }
}

fn list(flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    show(&PROJECTS, flags, session, || {
        let all = client.projects()?.items;
        let warnings: Vec<String> = all
            .iter()
            .flat_map(|it| &it.warnings)
            .map(|warning| format!("note: {}", safe(warning)))
            .collect();
        let rows = select(&PROJECTS, all, flags)?;
        let n = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let footer = [count(n, "project")].into_iter().chain(warnings);
        Ok(Listing::new(rows, footer.collect::<Vec<_>>().join("\n")))
    })
}

fn pages(names: &[String], session: &Session) -> Result {
    let client = session.client()?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        found.push(client.project(name)?);
    }
    listing::pages(&found, page, session)
}

/// The tables of a projects file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    projects: BTreeMap<String, ProjectSettings>,
}

fn apply(args: &ApplyArgs, session: &Session) -> Result {
    let set = ProjectSet { prune: args.prune, dry_run: true, ..read(&args.file)? };
    let client = session.client()?;
    let looked = client.apply_projects(&set)?;
    if args.dry_run {
        return tell(&looked, session);
    }
    if looked.changes.is_empty() {
        session.screen.note("nothing differs");
        return if session.global.json { tell(&looked, session) } else { Ok(Exit::OK) };
    }
    if !args.yes {
        let shown = difference(&looked);
        if session.global.json || !std::io::stdin().is_terminal() {
            let mut failure = Failure::new(USAGE, "nothing changed yet: the command needs --yes");
            for line in shown.lines() {
                failure = failure.why(line.trim_end());
            }
            return Err(failure.tip(format!("gpool project apply {} --yes", args.file.display())));
        }
        session.screen.data(&shown)?;
        warn(&looked, session);
        confirm(looked.changes.len())?;
    }
    // Refused if a project changed since the first request.
    let set = ProjectSet { dry_run: false, seen: Some(looked.seen), ..set };
    tell(&client.apply_projects(&set)?, session)
}

fn confirm(n: usize) -> Result<()> {
    let projects = count(u64::try_from(n).unwrap_or(u64::MAX), "project");
    eprint!("change {projects}? [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim()) {
        (Ok(_), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::new(USAGE, "nothing was changed")
            .tip("--yes   (changes it without a question)")),
    }
}

fn read(path: &Path) -> Result<ProjectSet> {
    let mut text = String::new();
    let is_input = path == Path::new("-");
    let shown = if is_input { "standard input".to_owned() } else { path.display().to_string() };
    let read = match is_input {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| Failure::new(INVALID, format!("can't read {shown}: {error}")))?;
    parse(&text, &shown)
}

/// Parses the text of a file that messages call `shown`.
pub fn parse(text: &str, shown: &str) -> Result<ProjectSet> {
    let file: File = toml_file::read(text).map_err(|misfit| {
        let what = format!("{shown}:{}: {}", misfit.line, misfit.problem.detail);
        let failure = misfit.problem.tries.iter().fold(Failure::new(INVALID, what), Failure::tip);
        failure.tip("gpool help projects")
    })?;
    let set = ProjectSet { projects: file.projects, ..ProjectSet::default() };
    // The server checks this too, but here the message can name the line.
    match set.ask() {
        Ok(_) => Ok(set),
        Err(refusal) => Err(at_line(text, shown, &refusal)),
    }
}

fn at_line(text: &str, shown: &str, refusal: &Refusal) -> Failure {
    let problem = gpool_wire::Problem::from(refusal);
    let Refusal::Invalid { field, .. } = refusal else { return problem.into() };
    let (table, key) = field.rsplit_once('.').unwrap_or((field, ""));
    let name = table.strip_prefix("projects.").unwrap_or(table);
    let is_head = |line: &str| {
        let head = line.trim().trim_start_matches('[').trim_end_matches(']');
        head.strip_prefix("projects.").is_some_and(|it| it.trim_matches(['"', '\'']) == name)
    };
    let mut lines = (1..).zip(text.lines()).skip_while(|(_, line)| !is_head(line));
    let head = lines.next();
    let is_key = |line: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let found = lines
        .take_while(|(_, line)| !line.trim_start().starts_with('['))
        .find(|(_, line)| is_key(line));
    let line = found.or(head).map_or(1, |(line, _)| line);
    Failure::new(INVALID, format!("{shown}:{line}: {}", problem.detail)).tip("gpool help projects")
}
