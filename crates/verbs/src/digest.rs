//! `gpool digest`: the use of GPUs by a project or user in the last seven days.

use clap::Args;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::render::json;
use gpool_cli::session::Session;
use gpool_model::ProjectName;
use gpool_wire::Payer;

#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "gpool notify --user digest@mailto:ana@example.org sends it each Monday. \
    Only admins of a project see its digest, and only admins that of another user.")]
pub struct DigestArgs {
    /// Project, with the projects below it
    #[arg(long, value_name = "NAME", conflicts_with = "user")]
    project: Option<String>,
    /// User, by default yourself
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

/// Runs the verb.
pub fn run(args: DigestArgs, session: &Session) -> Result {
    let user = || args.user.unwrap_or_else(|| session.me().to_owned());
    let payer = match args.project {
        Some(name) => Payer::Project(ProjectName::new(name)),
        None => Payer::User(user().into()),
    };
    let digest = session.client()?.digest(&payer)?;
    let text = if session.global.json { json::one(&digest) } else { digest.text() };
    session.screen.data(&text)?;
    Ok(Exit::OK)
}
