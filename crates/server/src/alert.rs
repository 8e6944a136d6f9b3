//! Tells of what should not have happened: a file about each plan that broke an invariant, to find
//! the fault later, and warnings.

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use gpool_control::Control;
use gpool_model::agent::{LoanIs, LoanReport, Report, TaskIs, TaskReport};

use gpool_journal::case::Case;

/// No more are kept: a fault that lasts makes the same one again and again.
pub const KEPT_MOST: usize = 20;

/// Writes the case of a bad plan, one file for each revision, unless there are many already. Only
/// the server's user can read it: it shows jobs of all users.
pub fn dump(folder: &Path, case: &Case) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    if std::fs::read_dir(folder)?.count() >= KEPT_MOST {
        return Ok(());
    }
    let path = folder.join(format!("{}.json", case.revision));
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&case.file())
}

/// Where a test asks for it, every plan starts its first job twice.
pub fn make_plans_wrong(control: &mut Control) {
    let point = "server-plan-wrong";
    // Without failpoints nothing else names them.
    let _ = (&control, point);
    fail::fail_point!(point, |_| {
        control.distort_plans(|plan| plan.decisions.extend(plan.decisions.first().cloned()));
    });
}

/// Logs a guarantee that was not met, or a restore that did not move GPU memory.
pub fn warn_of(report: &Report) {
    if let Report::Task(TaskReport { task, is: TaskIs::NotMoved { why, .. }, .. }) = report {
        tracing::warn!(%task, why, "a job could not resume on another GPU");
    }
    if let Report::Loan(LoanReport { task, device, is: LoanIs::Late { bytes, waited } }) = report {
        tracing::warn!(%task, %device, %bytes, %waited, "a job waits for memory of its request");
    }
}
