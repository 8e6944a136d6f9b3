//! `gctl quota`: limits of users and projects.

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Approximated, Covered, Instead};
use gpool_cli::foreign::flag::Takes::{Nothing, Value};
use gpool_cli::foreign::flag::{Flag, ParsedArgs, Spoken, row};
use gpool_cli::session::Session;

use crate::shim::{below, gpool, gpool_line, read_words};

const EACH_PROJECT: &str = "gpool project edit PROJECT --limit N, for each project";

static SUBJECTS: &[Flag] = &[
    row("default-project", '\0', Nothing, Instead, EACH_PROJECT),
    row("default-user", '\0', Nothing, Covered, "gpool user limit all"),
    row("project", '\0', Value, Covered, "gpool project edit"),
    row("user", '\0', Value, Covered, "gpool user limit"),
];

static LIMITS: &[Flag] = &[
    row("max-queued-jobs", '\0', Value, Approximated, "--pending; of users, not of projects"),
    row("max-running-gpus", '\0', Value, Covered, "--gpus of a user, --limit of a project"),
    row("max-running-jobs", '\0', Value, Covered, "--running of a user, --jobs-limit of a project"),
];

pub(super) static LIST: Spoken = Spoken {
    name: "gctl quota list",
    about: "Show limits: gpool quota, gpool user limit all",
    flags: &[],
    words: "",
};
pub(super) static SET: Spoken = Spoken {
    name: "gctl quota set",
    about: "Limit a user or a project",
    flags: &[SUBJECTS, LIMITS],
    words: "",
};
pub(super) static REMOVE: Spoken = Spoken {
    name: "gctl quota remove",
    about: "Remove the limits of a user or a project",
    flags: &[SUBJECTS],
    words: "",
};

/// The user or project with the limit.
enum Subject {
    User(String),
    Project(String),
}

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let (word, rest) = below("gctl quota", words, &["list", "set", "remove"])?;
    match word {
        "list" => {
            let Some(_) = read_words(&LIST, rest, 0, session)? else { return Ok(Exit::OK) };
            gpool_line(&["quota"], session)?;
            gpool_line(&["user", "limit", "all"], session)?;
            gpool_line(&["user", "limit", session.me()], session)
        }
        "set" => {
            let Some(args) = read_words(&SET, rest, 0, session)? else { return Ok(Exit::OK) };
            set(&args, session)
        }
        _ => {
            let Some(args) = read_words(&REMOVE, rest, 0, session)? else { return Ok(Exit::OK) };
            remove(&args, session)
        }
    }
}

fn subject(args: &ParsedArgs) -> Result<Subject> {
    let user = args.value("user").map(str::to_owned);
    let user = user.or_else(|| args.has("default-user").then(|| "all".to_owned()));
    match (user, args.value("project")) {
        (Some(user), None) => Ok(Subject::User(user)),
        (None, Some(project)) => Ok(Subject::Project(project.to_owned())),
        _ => Err(Failure::new(errors::USAGE, "gctl quota: give one user or one project")
            .tip("gctl quota set --user alice --max-running-gpus 4")),
    }
}

fn set(args: &ParsedArgs, session: &Session) -> Result {
    let (mut words, flags) = match subject(args)? {
        Subject::User(user) => {
            let flags = ["--running", "--gpus", "--pending"];
            (vec!["user".to_owned(), "limit".to_owned(), user], flags)
        }
        Subject::Project(project) => {
            if args.has("max-queued-jobs") {
                let what = "gctl quota: a project can't limit waiting jobs";
                return Err(Failure::new(errors::NO_SUCH_FLAG, what).tip(format!(
                    "gpool project edit {project} --user-pending N, for each of its users"
                )));
            }
            let flags = ["--jobs-limit", "--limit", ""];
            (vec!["project".to_owned(), "edit".to_owned(), project], flags)
        }
    };
    let theirs = ["max-running-jobs", "max-running-gpus", "max-queued-jobs"];
    let n_before = words.len();
    for (theirs, ours) in theirs.into_iter().zip(flags) {
        words.extend(args.value(theirs).map(|value| format!("{ours}={value}")));
    }
    if words.len() == n_before {
        return Err(Failure::new(errors::USAGE, "gctl quota set: give a limit")
            .tip("gctl quota set --user alice --max-running-gpus 4"));
    }
    gpool(&words, session)
}

fn remove(args: &ParsedArgs, session: &Session) -> Result {
    match subject(args)? {
        Subject::Project(project) => {
            gpool_line(&["project", "edit", &project, "--limit=none", "--jobs-limit=none"], session)
        }
        Subject::User(user) if user == "all" => {
            let none = ["--running=none", "--pending=none", "--gpus=none"];
            gpool_line(&[&["user", "limit", "all"], &none[..]].concat(), session)
        }
        // A user without own limits has the limits for all users.
        Subject::User(user) => {
            let all = session.client()?.user_limits("all")?;
            let count = |n: Option<u64>| n.map_or("none".to_owned(), |n| n.to_string());
            let gpus = all.gpus.map_or("none".to_owned(), |gpus| gpus.to_string());
            let words = [
                "user".to_owned(),
                "limit".to_owned(),
                user,
                format!("--running={}", count(all.running_jobs)),
                format!("--pending={}", count(all.pending_jobs)),
                format!("--gpus={gpus}"),
            ];
            gpool(&words, session)
        }
    }
}
