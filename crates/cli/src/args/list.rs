//! Flags that every list has.

use clap::{Args, ValueEnum};
use gpool_model::Millis;

use super::values::interval;

/// In which form a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// More columns for people.
    Wide,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// The same as YAML.
    Yaml,
    /// Comma-separated values, machine values.
    Csv,
    /// The same with tabs.
    Tsv,
    /// Only what each thing is called by.
    Name,
}

/// Flags that every list has.
#[derive(Debug, Clone, Default, Args)]
pub struct ListFlags {
    /// Form of the output
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    #[arg(help_heading = "Output")]
    pub output: Format,
    /// Columns, in this order: id,name,state
    #[arg(long, value_name = "COLS", value_delimiter = ',', help_heading = "Output")]
    pub format: Vec<String>,
    /// Only rows in which a key has that value
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Output")]
    pub filter: Vec<String>,
    /// Order rows by a key; -KEY turns it round
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, help_heading = "Output")]
    pub sort: Option<String>,
    /// Most rows to show
    #[arg(short = 'n', long, value_name = "N", help_heading = "Output")]
    pub limit: Option<usize>,
    /// Show it again at this interval, until q or Ctrl-C
    #[arg(short, long, value_name = "EVERY", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "2s", value_parser = interval, help_heading = "Output")]
    pub watch: Option<Millis>,
}

impl ListFlags {
    /// The form, with `--json` meaning `-o json`.
    #[must_use]
    pub fn form(&self, json: bool) -> Format {
        if json && self.output == Format::Table { Format::Json } else { self.output }
    }
}
