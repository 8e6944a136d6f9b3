//! Flags that make a job an array.

use clap::Args;
use gpool_wire::Param;

use super::values;

/// Which elements an array has, and what each is given.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Array")]
pub struct ArrayFlags {
    /// Elements by index, and how many run at once: 0-99, 0-99:2%8, 1,3,7-9
    #[arg(long, value_name = "INDEXES", value_parser = values::array)]
    #[arg(allow_hyphen_values = true)]
    pub array: Option<String>,
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
    /// Most elements that run at once
    #[arg(long, value_name = "N", value_parser = values::max_parallel)]
    #[arg(visible_alias = "max-concurrent", allow_hyphen_values = true)]
    pub max_parallel: Option<u32>,
    /// Cancel the rest after more failures than this
    #[arg(long, value_name = "N")]
    pub max_fails: Option<u32>,
}

impl ArrayFlags {
    /// Takes from `other` what is not said here. Values come whole from one of the two.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let values = if self.has_values() { self.clone() } else { other.clone() };
        Self {
            array: self.array.or(other.array),
            param: values.param,
            param_file: values.param_file,
            each_line: values.each_line,
            array_from: values.array_from,
            max_parallel: self.max_parallel.or(other.max_parallel),
            max_fails: self.max_fails.or(other.max_fails),
        }
    }

    /// Whether it is an array that they make.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.array.is_some() || self.has_values()
    }

    fn has_values(&self) -> bool {
        !self.param.is_empty()
            || self.param_file.is_some()
            || self.each_line.is_some()
            || self.array_from.is_some()
    }
}
