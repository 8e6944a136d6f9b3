//! The command line as types, without behaviour.

pub mod array_flags;
pub mod job_flags;
pub mod jobs;
pub mod life_flags;
pub mod list;
pub mod mcp;
pub mod request_flags;
pub mod software_flags;

pub mod values;

use clap::Args;

use crate::render::clock::zone_name;
use crate::screen::ColorWhen;

/// Flags of every verb.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Socket or https:// address of the server (default: GPOOL_SERVER or GPOOL_SOCKET, else the
    /// usual path)
    #[arg(long, global = true, value_name = "SERVER", help_heading = "Global options")]
    pub server: Option<String>,
    /// Server to use, by its name at gpool login; local is this machine's (default: GPOOL_CONTEXT)
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    #[arg(conflicts_with = "server")]
    pub context: Option<String>,
    /// Print JSON instead of text, also for errors
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// When to use colors: auto, always or never
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    #[arg(help_heading = "Global options", hide_possible_values = true)]
    pub color: ColorWhen,
    /// The same as --color never
    #[arg(long, global = true, hide = true, help_heading = "Global options")]
    pub no_color: bool,
    /// Print ASCII only (also GPOOL_ASCII=1)
    #[arg(long, global = true, help_heading = "Global options")]
    pub ascii: bool,
    /// Print times in UTC instead of local time
    #[arg(long, global = true, help_heading = "Global options")]
    pub utc: bool,
    /// Time zone for times, e.g. Europe/Berlin (default: local time)
    #[arg(long, global = true, value_name = "ZONE", value_parser = zone_name)]
    #[arg(conflicts_with = "utc", help_heading = "Global options")]
    pub tz: Option<String>,
    /// Print only results, no notes
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Print more details
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    #[arg(help_heading = "Global options")]
    pub verbose: u8,
}

impl Global {
    #[must_use]
    pub fn colors(&self) -> ColorWhen {
        if self.no_color { ColorWhen::Never } else { self.color }
    }

    /// The requested time zone; `None` is the machine's.
    #[must_use]
    pub fn zone(&self) -> Option<String> {
        self.tz.clone().or_else(|| self.utc.then(|| "UTC".to_owned()))
    }
}
