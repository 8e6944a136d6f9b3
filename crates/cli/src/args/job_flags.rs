//! Flags that say what a job needs. They come from the command line, from `GPOOL_SUBMIT_…`
//! variables and from directives; the first that says something wins, lists are joined.

use clap::{Args, Command, FromArgMatches as _};

use super::array_flags::ArrayFlags;
use super::asked::Asked;
use super::life_flags::LifeFlags;
use super::software_flags::SoftwareFlags;
use super::values::{self, joined};
use crate::caller::Variable;
use crate::failure::Result;
use crate::usage;

/// What a job needs and how it is to run.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Job")]
pub struct JobFlags {
    /// The fields of the request that flags say as they are.
    #[command(flatten)]
    pub asked: Asked,
    /// Beside others on its GPUs: what --gpu-memory and --gpu-share mean anyway
    #[arg(long)]
    pub shared: bool,
    /// Start after jobs: [ok:|fail:|end:|each:|start:]JOB,…
    #[arg(long, value_name = "JOBS")]
    pub after: Vec<String>,
    /// When it starts, and what follows its end.
    #[command(flatten)]
    pub life: LifeFlags,
    /// What makes it an array.
    #[command(flatten)]
    pub array: ArrayFlags,
    /// Folder in which it runs
    #[arg(long, value_name = "FOLDER", value_parser = values::filled)]
    pub cwd: Option<String>,
    /// Variable for the job; without a value, the caller's
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<Variable>,
    /// Which software is active for it.
    #[command(flatten, next_help_heading = "Software")]
    pub software: SoftwareFlags,
    /// Pass only HOME, PATH, USER and LANG, and what -e says
    #[arg(long)]
    pub clean_env: bool,
    /// Lower a priority above your right, and leave out a project, pool or label that there is not,
    /// with a warning
    #[arg(long)]
    pub lenient: bool,
    /// Refuse a script with flags that are ignored, contradict others or stand in a wrong place
    #[arg(long)]
    pub strict: bool,
    /// Fail instead of waiting for GPUs
    #[arg(long)]
    pub no_queue: bool,
}

impl JobFlags {
    /// The parser of these flags alone, as `submit` reads them.
    pub(crate) fn parser() -> Command {
        Self::augment_args(Command::new("gpool submit"))
            .no_binary_name(true)
            .args_override_self(true)
            .disable_help_flag(true)
    }

    /// Reads flags of `submit`.
    ///
    /// # Errors
    /// A word is no flag, or its value is invalid.
    pub fn read(words: &[String]) -> Result<Self> {
        let matches = Self::parser().try_get_matches_from(words);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| usage::failure(&error, Some("submit")))
    }

    /// Takes from `other` what is not said here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            asked: Asked(self.asked.0.over(other.asked.0)),
            shared: self.shared || other.shared,
            after: joined(other.after, self.after),
            life: self.life.or(other.life),
            array: self.array.or(other.array),
            cwd: self.cwd.or(other.cwd),
            env: joined(other.env, self.env),
            software: self.software.or(other.software),
            clean_env: self.clean_env || other.clean_env,
            lenient: self.lenient || other.lenient,
            strict: self.strict || other.strict,
            no_queue: self.no_queue || other.no_queue,
        }
    }
}
