//! `gpool verify`: checks a store or a backup: every checksum, the chains of the journal and the
//! audit log, and the consistency of the records.

use std::path::{Path, PathBuf};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::page::Page;
use gpool_cli::session::{Session, state_dir};
use gpool_cli::store_file::fault;
use gpool_cli::working::during;
use gpool_journal::inspect::contradictions;
use gpool_server::verify_audit;
use gpool_store::{Reader, VerifyReport};
use serde_json::json;

/// Most findings in the text output.
const FINDINGS_MAX: usize = 20;

#[derive(Debug, Clone, Default, Args)]
pub struct VerifyArgs {
    /// State folder or backup (default: the usual state folder)
    #[arg(value_name = "FOLDER | FILE")]
    path: Option<PathBuf>,
    /// State folder of the server (default: the usual one)
    #[arg(long, value_name = "FOLDER", conflicts_with = "path")]
    state_dir: Option<String>,
}

/// Checks a store; returns the report with everything that is wrong.
fn check(path: &Path) -> Result<(VerifyReport, Vec<String>)> {
    let report = gpool_store::verify(path).map_err(|error| fault(&error))?;
    let mut findings: Vec<String> =
        report.findings.iter().map(|found| found.what.clone()).collect();
    if report.is_sound() {
        // Damaged records would also contradict each other, so damage is reported only once.
        let reader = Reader::open(path).map_err(|error| fault(&error))?;
        findings.extend(contradictions(&reader));
    }
    // A backup has the log in its folder, too.
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    let (_, broken) = verify_audit(folder).map_err(|error| {
        Failure::new(errors::STORE_FAULT, format!("can't read the audit log: {error}"))
    })?;
    findings.extend(broken.iter().map(ToString::to_string));
    Ok((report, findings))
}

/// Runs the verb; the exit code is 1 if something is wrong.
///
/// # Errors
/// The store can't be read at all.
pub fn run(args: &VerifyArgs, session: &Session) -> Result {
    let path = match &args.path {
        Some(path) if !path.exists() => {
            return Err(Failure::new(
                errors::STORE_FAULT,
                format!("there is no {}", path.display()),
            )
            .tip("gpool verify FILE   (a backup of gpool backup)")
            .tip("gpool verify   (the usual state folder)"));
        }
        Some(path) => path.clone(),
        None => state_dir(args.state_dir.as_deref())?,
    };
    let (report, findings) = during(&session.screen, "checking the store", || check(&path))?;
    let is_sound = findings.is_empty();
    let exit = if is_sound { Exit::OK } else { Exit::FAILED };
    if session.global.json {
        let document = json!({
            "path": report.path,
            "sound": is_sound,
            "revision": report.revision,
            "records": report.n_records,
            "journal": report.n_journal,
            "archive": report.n_archive,
            "blobs": report.n_blobs,
            "findings": findings,
        });
        session.screen.data(&json::one(document))?;
        return Ok(exit);
    }
    let word = if is_sound { "sound" } else { "damaged" };
    let mut page = Page::new(&format!("{} is {word}", report.path.display()));
    page.label("revision", &report.revision.to_string());
    page.label(
        "checked",
        &format!(
            "{} records, {} entries of the journal, {} ended jobs, {} files",
            report.n_records, report.n_journal, report.n_archive, report.n_blobs
        ),
    );
    page.labels("wrong", &findings[..findings.len().min(FINDINGS_MAX)]);
    if let more @ 1.. = findings.len().saturating_sub(FINDINGS_MAX) {
        page.label("", &format!("and {more} more; --json has all of them"));
    }
    session.screen.data(&page.text())?;
    Ok(exit)
}
