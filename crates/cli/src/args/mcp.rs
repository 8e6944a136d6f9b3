//! The flags of `gpool mcp`, which gpool and gpool-mcp parse.

use clap::{Args, ValueEnum};

/// The tools of an assistant.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "An assistant starts this command, and calls its tools by the Model Context \
    Protocol over standard input and output. Without --allow, all tools only read. The program \
    gpool-mcp runs it."
)]
pub struct McpArgs {
    /// Also offer the tools that change something: submit, cancel
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub allow: Vec<McpScope>,
}

/// A permission for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum McpScope {
    /// `preview` and `submit`
    Submit,
    /// `cancel`
    Cancel,
}

impl McpScope {
    /// The value of `--allow`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Submit => "submit",
            Self::Cancel => "cancel",
        }
    }
}
