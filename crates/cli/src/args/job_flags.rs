//! Flags of a job request. They come from the command line, from `GPOOL_SUBMIT_…` variables and
//! from directives; the first source with a value wins, and lists are joined.

use clap::{Args, Command, FromArgMatches as _};
use gpool_wire::field::heading;

use super::array_flags::ArrayFlags;
use super::life_flags::LifeFlags;
use super::request_flags::RequestFlags;
use super::software_flags::SoftwareFlags;
use super::values::{self, join_lists};
use crate::caller::Variable;
use crate::failure::Result;
use crate::usage;

#[derive(Debug, Clone, Default, PartialEq, Args)]
pub struct JobFlags {
    /// The flags that set a field of the request directly.
    #[command(flatten)]
    pub request: RequestFlags,
    /// Share the GPUs with other jobs; implied by --gpu-memory and --gpu-share
    #[arg(long, help_heading = heading::RESOURCES)]
    pub shared: bool,
    /// Jobs to wait for, as [ok:|fail:|end:|each:|start:]JOB,…, e.g. 1842 or end:1842
    #[arg(long, value_name = "JOBS", help_heading = heading::TIME)]
    pub after: Vec<String>,
    /// When the job starts, and what follows its end.
    #[command(flatten)]
    pub life: LifeFlags,
    #[command(flatten)]
    pub array: ArrayFlags,
    /// Working folder of the job (default: the current folder)
    #[arg(long, value_name = "FOLDER", value_parser = values::filled)]
    #[arg(help_heading = heading::PROGRAM)]
    pub cwd: Option<String>,
    /// Environment variable of the job, e.g. SEED=1; without a value, the caller's
    #[arg(short, long, value_name = "NAME[=VALUE]", help_heading = heading::PROGRAM)]
    pub env: Vec<Variable>,
    /// The software environment of the job.
    #[command(flatten)]
    pub software: SoftwareFlags,
    /// Pass only HOME, PATH, USER, LANG and the variables of -e
    #[arg(long, help_heading = heading::PROGRAM)]
    pub clean_env: bool,
    /// Lower a priority that you may not use, and drop an unknown project, pool or label, with a
    /// warning
    #[arg(long, help_heading = heading::SUBMISSION)]
    pub lenient: bool,
    /// Refuse a script with flags that are ignored, contradictory or misplaced
    #[arg(long, help_heading = heading::SUBMISSION)]
    pub strict: bool,
    /// Fail if the job cannot start now, instead of waiting
    #[arg(long, help_heading = heading::TIME)]
    pub no_queue: bool,
}

impl JobFlags {
    /// A parser of these flags only, for `submit` and the values of other sources.
    pub(crate) fn parser() -> Command {
        Self::augment_args(Command::new("gpool submit"))
            .no_binary_name(true)
            .args_override_self(true)
            .disable_help_flag(true)
    }

    /// Parses flags of `submit`.
    pub fn read(words: &[String]) -> Result<Self> {
        let matches = Self::parser().try_get_matches_from(words);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .map_err(|error| usage::failure(&error, Some("submit")))
    }

    /// Fills in values from `other` where there are none here.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            request: RequestFlags(self.request.0.over(other.request.0)),
            shared: self.shared || other.shared,
            after: join_lists(other.after, self.after),
            life: self.life.or(other.life),
            array: self.array.or(other.array),
            cwd: self.cwd.or(other.cwd),
            env: join_lists(other.env, self.env),
            software: self.software.or(other.software),
            clean_env: self.clean_env || other.clean_env,
            lenient: self.lenient || other.lenient,
            strict: self.strict || other.strict,
            no_queue: self.no_queue || other.no_queue,
        }
    }
}
