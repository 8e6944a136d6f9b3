//! The format of an answer that is not a table.

/// The output format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum PageFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
}

impl PageFormat {
    /// The format; `--json` means `-o json`.
    #[must_use]
    pub fn or_json(self, json: bool) -> Self {
        if json && self == Self::Text { Self::Json } else { self }
    }
}
