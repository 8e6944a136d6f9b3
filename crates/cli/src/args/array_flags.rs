//! Flags for the values of array elements.

use clap::Args;
use gpool_wire::Param;
use gpool_wire::field::heading;

use super::values;

#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = heading::ARRAY)]
pub struct ArrayFlags {
    /// Values of a parameter, e.g. lr=0.1,0.01; repeatable, one element per combination
    #[arg(long, value_name = "NAME=VALUES", value_parser = values::param)]
    pub param: Vec<Param>,
    /// CSV file with a header, one element per row; - is standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub param_file: Option<String>,
    /// File with one element per line; - is standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub each_line: Option<String>,
    /// JSON array or JSON lines, one element per item; - is standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub array_from: Option<String>,
}

impl ArrayFlags {
    /// Fills in values from `other` if there are none here; the two are not mixed.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.has_values() { self } else { other }
    }

    fn has_values(&self) -> bool {
        !self.param.is_empty()
            || self.param_file.is_some()
            || self.each_line.is_some()
            || self.array_from.is_some()
    }
}
