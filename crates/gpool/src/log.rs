//! The log of the server.

mod lines;

use std::os::fd::AsFd as _;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::safe::safe;
use serde::Deserialize;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{self, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use self::lines::line;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Lines for people; under systemd, entries of the journal with their fields.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// Starts the log on standard error. `GPOOL_LOG` says what it contains: a level, also for parts of
/// the program, as in `info,gpool_server=debug`.
///
/// # Errors
/// `GPOOL_LOG` is not valid.
pub fn start(format: LogFormat) -> Result<()> {
    let chosen = std::env::var("GPOOL_LOG").unwrap_or_else(|_| "info".to_owned());
    let chosen: Targets = chosen.parse().map_err(|error: filter::ParseError| {
        Failure::new(errors::NOT_STARTED, format!("GPOOL_LOG is not valid: {}", safe(&chosen)))
            .why(error.to_string())
            .tip("GPOOL_LOG=info,gpool_server=debug gpool up")
    })?;
    let journal = (format == LogFormat::Text && is_journal()).then(tracing_journald::layer);
    // A line that can't be written is lost, as on a full disk. To report that on the same stream
    // would panic.
    let lines = tracing_subscriber::fmt::layer().log_internal_errors(false);
    let lines = lines.with_writer(lines::LogWriter::new(format)).with_ansi(false);
    let log = tracing_subscriber::registry();
    match (format, journal) {
        (_, Some(Ok(journal))) => log.with(journal.with_filter(chosen)).init(),
        (LogFormat::Json, _) => {
            log.with(lines.json().flatten_event(true).with_filter(chosen)).init();
        }
        (LogFormat::Text, _) => log.with(lines.with_filter(chosen)).init(),
    }
    Ok(())
}

/// Whether standard error goes to systemd's journal, whose variable names that stream.
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let about = rustix::fs::fstat(std::io::stderr().as_fd());
    about.is_ok_and(|it| named == format!("{}:{}", it.st_dev, it.st_ino))
}
