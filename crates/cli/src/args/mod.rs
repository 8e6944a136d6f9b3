//! The command line as types. Nothing here does anything.

pub mod array_flags;
pub mod asked;
pub mod job_flags;
pub mod jobs;
pub mod life_flags;
pub mod list;
pub mod software_flags;

pub mod values;

use clap::Args;

use crate::render::clock::zone_name;
use crate::screen::ColorWhen;

/// Flags that every verb has.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Address of the server: the path of its socket
    #[arg(long, global = true, value_name = "SOCKET", help_heading = "Everywhere")]
    pub server: Option<String>,
    /// JSON instead of text, errors included
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
    /// When to colour
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value = "auto")]
    #[arg(help_heading = "Everywhere")]
    pub color: ColorWhen,
    /// ASCII only (also GPOOL_ASCII=1)
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub ascii: bool,
    /// Times in UTC instead of local time
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub utc: bool,
    /// Times in that zone: Europe/Berlin
    #[arg(long, global = true, value_name = "ZONE", value_parser = zone_name)]
    #[arg(conflicts_with = "utc", help_heading = "Everywhere")]
    pub tz: Option<String>,
    /// Only the result: no remarks
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
    /// Say more about what is done
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    #[arg(help_heading = "Everywhere")]
    pub verbose: u8,
}

impl Global {
    /// The zone of times, if it is not the machine's.
    #[must_use]
    pub fn zone(&self) -> Option<String> {
        self.tz.clone().or_else(|| self.utc.then(|| "UTC".to_owned()))
    }
}
