//! `gpool quota`: quota, usage and loans of projects.

use clap::Args;
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::list::select;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{QuotaOverview, QuotaRow, catalogue};

use crate::render::projects::{QUOTA, loan_lines, quota_footer};

#[derive(Debug, Clone, Args)]
pub struct QuotaArgs {
    /// Project to show, with those above and below it
    #[arg(value_name = "PROJECT")]
    of: Option<String>,
    #[command(flatten)]
    list: ListFlags,
}

/// Runs the verb.
pub fn run(args: &QuotaArgs, session: &Session) -> Result {
    let client = session.client()?;
    show(&QUOTA, &args.list, session, || {
        let all = client.quota()?;
        let mut footer = quota_footer(&all, &session.view());
        let rows = match &args.of {
            Some(name) => {
                let rows = near(&all, name)?;
                let lines = loan_lines(&rows, &session.view());
                footer = if lines.is_empty() { footer } else { format!("{footer}\n{lines}") };
                rows
            }
            None => all.projects,
        };
        Ok(Listing::new(select(&QUOTA, rows, &args.list)?, footer))
    })
    .map(|_| Exit::OK)
}

/// A project with all projects above and below it.
fn near(all: &QuotaOverview, name: &str) -> Result<Vec<QuotaRow>> {
    let above = |of: &str| -> Vec<String> {
        let parent = |it: &String| {
            let row = all.projects.iter().find(|row| row.project == *it)?;
            row.parent.clone()
        };
        std::iter::successors(Some(of.to_owned()), parent).take(all.projects.len()).collect()
    };
    if !all.projects.iter().any(|row| row.project == name) {
        let shown: String = name.chars().take(80).collect();
        let names: Vec<&str> = all.projects.iter().map(|row| row.project.as_str()).collect();
        let failure =
            Failure::new(catalogue::NO_SUCH_PROJECT, format!("there is no project {shown:?}"))
                .why(safe(&format!("there are: {}", names.join(", "))));
        return Err(match gpool_wire::json::nearest(name, names.iter().copied()) {
            Some(near) => failure.tip(format!("gpool quota {}", safe(near))),
            None => failure.tip("gpool project list"),
        });
    }
    let own = above(name);
    let is_near = |row: &QuotaRow| {
        own.contains(&row.project) || above(&row.project).iter().any(|it| it == name)
    };
    let near = all.projects.iter().filter(|row| is_near(row)).cloned().collect();
    Ok(near)
}
