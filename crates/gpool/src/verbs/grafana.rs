//! `gpool grafana`: dashboards of Grafana and alert rules of Prometheus.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;

use crate::grafana;

#[derive(Debug, Clone, Args)]
pub struct GrafanaArgs {
    #[command(subcommand)]
    action: GrafanaAction,
}

#[derive(Debug, Clone, Subcommand)]
enum GrafanaAction {
    /// Write the dashboards as JSON, and the alert rules as YAML
    #[command(after_help = "Import the dashboards in Grafana, or put them into a folder of its \
        provisioning. Name the rules in rule_files of Prometheus.")]
    Export(ExportArgs),
}

/// The arguments of `gpool grafana export`.
#[derive(Debug, Clone, Args)]
struct ExportArgs {
    /// Folder to write to; created if it does not exist
    #[arg(long, value_name = "FOLDER", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

/// Runs the verb; prints the paths of the files.
pub fn run(args: &GrafanaArgs, session: &Session) -> Result {
    let GrafanaAction::Export(ExportArgs { folder }) = &args.action;
    let failed = |error: std::io::Error| {
        let what = format!("can't write to {}: {error}", folder.display());
        Failure::new(errors::NOT_WRITTEN, what)
            .tip("gpool grafana export --folder FOLDER   (with a folder that you can write to)")
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, text) in grafana::files() {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(failed)?;
        session.screen.data(&format!("{}\n", path.display()))?;
    }
    Ok(Exit::OK)
}
