//! Flags of every list.

use clap::{Args, ValueEnum};
use gpool_model::Millis;

use super::values::interval;

/// The output format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// More columns for people.
    Wide,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
    /// Comma-separated values, unformatted.
    Csv,
    /// Tab-separated values, unformatted.
    Tsv,
    /// A page that needs no other file.
    Html,
    /// Only the name or id of each item.
    Name,
}

#[derive(Debug, Clone, Default, Args)]
pub struct ListFlags {
    /// Output format: table, wide, json, jsonl, yaml, csv, tsv, html or name
    #[arg(short, long, value_enum, value_name = "FORM", default_value = "table")]
    #[arg(hide_possible_values = true)]
    #[arg(help_heading = "Output")]
    pub output: Format,
    /// Columns to show, in this order, e.g. id,name,state
    #[arg(long, value_name = "COLS", value_delimiter = ',', help_heading = "Output")]
    pub format: Vec<String>,
    /// Condition on the rows to show, e.g. state=running
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Output")]
    pub filter: Vec<String>,
    /// Column to sort by, e.g. name; -name reverses the order
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, help_heading = "Output")]
    pub sort: Option<String>,
    /// Maximum number of rows
    #[arg(short = 'n', long, value_name = "N", help_heading = "Output")]
    pub limit: Option<usize>,
    /// Show the list again at an interval (default: 2s), until q or Ctrl-C
    #[arg(short, long, value_name = "EVERY", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "2s", value_parser = interval, help_heading = "Output")]
    pub watch: Option<Millis>,
}

impl ListFlags {
    /// The format; `--json` means `-o json`.
    #[must_use]
    pub fn form(&self, json: bool) -> Format {
        if json && self.output == Format::Table { Format::Json } else { self.output }
    }
}
