//! The words after the name of a step: flags of `exec run` in any order, variables, parameters and
//! inputs.

use clap::{Args, Command, FromArgMatches as _};
use gpool_cli::failure::Result;
use gpool_cli::usage;

use crate::failure::invalid;

/// The flags of `exec run`.
#[derive(Debug, Clone, Default, Args)]
pub struct RunFlags {
    /// Run the files of the working tree, not those of a commit
    #[arg(short, long)]
    pub adhoc: bool,
    /// Commit to run (default: HEAD)
    #[arg(short, long, value_name = "COMMIT")]
    pub commit: Option<String>,
    /// File with the step, relative to the project
    #[arg(long, value_name = "FILE", default_value = crate::file::NAME)]
    pub yaml: String,
    /// Environment variable of the step, e.g. VH_GPUS=2
    #[arg(short = 'V', long, value_name = "NAME=VALUE")]
    pub var: Vec<String>,
    /// Environment, which is a pool of gpool
    #[arg(short, long, value_name = "POOL")]
    pub environment: Option<String>,
    /// Pool for an environment of the file
    #[arg(long, value_name = "ENVIRONMENT=POOL")]
    pub environment_pool: Vec<String>,
    /// Image of the container, in place of the step's
    #[arg(short, long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Run on the host, without a container
    #[arg(long, conflicts_with = "image")]
    pub no_image: bool,
    /// Folder with the files of a prefix of addresses, e.g. s3://bucket=/data
    #[arg(long, value_name = "PREFIX=/FOLDER")]
    pub prefix: Vec<String>,
    /// Title to show with the execution
    #[arg(short, long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Time limit, e.g. 1h30m
    #[arg(long, value_name = "TIME")]
    pub time_limit: Option<String>,
    /// Priority, -1000 to 1000; higher goes first
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub priority: Option<String>,
    /// Project to charge
    #[arg(long, value_name = "PROJECT")]
    pub project: Option<String>,
    /// Show the output until the execution ends
    #[arg(short, long)]
    pub watch: bool,
    /// Check the execution without submitting it
    #[arg(long)]
    pub dry_run: bool,
}

/// The words of a command line.
#[derive(Debug, Clone, Default)]
pub struct RunLine {
    pub flags: RunFlags,
    /// Names and values of parameters and inputs, in order.
    pub options: Vec<(String, Option<String>)>,
}

/// Reads the words after the name of the step. `before` are the flags before it.
///
/// # Errors
/// A word is neither a flag, a variable, nor an option.
pub fn read(before: RunFlags, words: &[String]) -> Result<RunLine> {
    let command = RunFlags::augment_args(Command::new("run").no_binary_name(true));
    let (mut own, mut options) = (Vec::new(), Vec::new());
    let mut variables = Vec::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        // Valohai's client has -v for --var; in gpool, -v is --verbose.
        let word = if word == "-v" { &"--var".to_owned() } else { word };
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let flag = command.get_arguments().find(|arg| {
            let long = arg.get_long().zip(name.strip_prefix("--"));
            let short = arg.get_short().zip(name.strip_prefix('-'));
            long.is_some_and(|(own, name)| own == name)
                || short.is_some_and(|(own, name)| name.strip_prefix(own) == Some(""))
        });
        if let Some(flag) = flag {
            own.push(word.clone());
            if flag.get_action().takes_values() && value.is_none() {
                own.extend(words.next().cloned());
            }
        } else if let Some(name) = name.strip_prefix("--").filter(|name| !name.is_empty()) {
            let is_next = |next: &&&String| value.is_none() && !next.starts_with('-');
            let next = words.peek().filter(is_next).map(|next| (*next).clone());
            // `--NAME VALUE` has no `=` in its value, which would be a variable.
            let next = next.filter(|next| !is_variable(next));
            if next.is_some() {
                words.next();
            }
            options.push((name.to_owned(), value.or(next)));
        } else if is_variable(word) {
            variables.push(word.clone());
        } else {
            return Err(invalid(format!("{word:?} is neither a flag nor a variable"))
                .tip("gpool vh exec run STEP --adhoc VH_GPUS=2 --PARAMETER=VALUE"));
        }
    }
    let mut found = command
        .try_get_matches_from(own)
        .map_err(|error| usage::failure(&error, Some("vh exec run")))?;
    let after = RunFlags::from_arg_matches_mut(&mut found)
        .map_err(|error| usage::failure(&error, Some("vh exec run")))?;
    let mut flags = merged(before, after);
    flags.var.extend(variables);
    Ok(RunLine { flags, options })
}

/// Whether a word is `NAME=VALUE`.
fn is_variable(word: &str) -> bool {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(is_name) && !name.as_bytes()[0].is_ascii_digit()
    })
}

/// Flags before and after the name of the step; later ones override.
fn merged(before: RunFlags, after: RunFlags) -> RunFlags {
    let is_default = after.yaml == crate::file::NAME;
    RunFlags {
        adhoc: before.adhoc || after.adhoc,
        commit: after.commit.or(before.commit),
        yaml: if is_default { before.yaml } else { after.yaml },
        var: [before.var, after.var].concat(),
        environment: after.environment.or(before.environment),
        environment_pool: [before.environment_pool, after.environment_pool].concat(),
        image: after.image.or(before.image),
        no_image: before.no_image || after.no_image,
        prefix: [before.prefix, after.prefix].concat(),
        title: after.title.or(before.title),
        time_limit: after.time_limit.or(before.time_limit),
        priority: after.priority.or(before.priority),
        project: after.project.or(before.project),
        watch: before.watch || after.watch,
        dry_run: before.dry_run || after.dry_run,
    }
}
