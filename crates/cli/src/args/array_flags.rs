//! Flags that give the elements of an array values.

use clap::Args;
use gpool_wire::Param;

use super::values;

/// What each element of an array is given.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Array")]
pub struct ArrayFlags {
    /// An element for each combination of values: --param lr=0.1,0.01 --param seed=1,2,3
    #[arg(long, value_name = "NAME=VALUES", value_parser = values::param)]
    pub param: Vec<Param>,
    /// An element for each row of a CSV file, whose first row has the names; - is standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub param_file: Option<String>,
    /// An element for each line of a file; - is standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub each_line: Option<String>,
    /// An element for each item of a JSON array, or each line of JSON; - is standard input
    #[arg(long, value_name = "FILE", value_parser = values::filled)]
    pub array_from: Option<String>,
}

impl ArrayFlags {
    /// Takes from `other` what is not said here. Values come whole from one of the two.
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
