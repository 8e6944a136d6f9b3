//! The disk with the state is full.

use std::io::Write as _;

use gpool_cli::failure::Result;
use gpool_model::job::JobState;
use gpool_wire::JobCreate;

use super::rig::{Rig, Stop, shell};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::Figure;

/// Jobs submitted while there is space.
const N_BEFORE: u32 = 100;

/// Fills a small file system under a server with a job, and frees space again.
pub fn full(_options: &Options, stop: &Stop) -> Result<Outcome> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Outcome::skipped("only root can mount a small file system for it"));
    }
    let mut rig = Rig::new("none", stop)?;
    if !rig.mount_small("4m")? {
        return Ok(Outcome::skipped("a file system can't be mounted here"));
    }
    rig.start()?;
    let go = rig.path("go").display().to_string();
    let line = format!("echo begun > {go}.begun; while [ ! -e {go} ]; do sleep 0.05; done; exit 5");
    let runs = rig.submit(&shell(&line))?;
    rig.read("go.begun")?;
    let job = JobCreate { hold: true, ..shell("true") };
    let mut acknowledged = Vec::new();
    for _ in 0..N_BEFORE {
        acknowledged.push(rig.submit(&job)?);
    }
    fill(&rig)?;
    let refusal = submit_until_refused(&rig, &job, &mut acknowledged)?;
    let lives = rig.server_lives();
    let is_held = |id: &String| rig.client().job(id).is_ok_and(|job| job.state == JobState::Held);
    let n_unreadable = acknowledged.iter().filter(|id| !is_held(id)).count();
    let is_running = rig.client().job(&runs).is_ok_and(|job| job.state == JobState::Running);
    rig.write("go", "")?;
    std::fs::remove_file(rig.state().join("ballast"))
        .map_err(|error| failed(format!("can't free space: {error}")))?;
    let client = rig.client();
    let resumed = stop.until_so("the server accepts jobs again", || {
        client.submit(&shell("true"), None).is_ok()
    })?;
    let end = rig.ended(&runs)?;
    let n_hurt = usize::from(!is_running || end.run.exit_code != Some(5));
    let n_lost = acknowledged.iter().filter(|id| !is_held(id)).count();
    let n_restarts = usize::from(!lives || !rig.server_lives());
    rig.end()?;
    let did = format!(
        "a state folder of 4 MB filled up; {} jobs acknowledged until \"{refusal}\"",
        acknowledged.len()
    );
    let none =
        |name, what, value: usize, unit| Figure::new(name, what, value as f64, unit).exactly(0.0);
    let figures = vec![
        none(
            "diskfull_unreadable",
            "acknowledged jobs unreadable in the meantime",
            n_unreadable,
            "jobs",
        ),
        none("diskfull_lost", "acknowledged jobs lost afterwards", n_lost, "jobs"),
        none("diskfull_hurt", "running jobs hurt", n_hurt, "jobs"),
        none("diskfull_restarts", "restarts needed to continue", n_restarts, "restarts"),
        Figure::new(
            "diskfull_resumed_s",
            "from free space until jobs are accepted again",
            resumed,
            "s",
        )
        .below(10.0),
    ];
    Ok(Outcome::Done { did, figures })
}

fn fill(rig: &Rig) -> Result<()> {
    let file = std::fs::File::create(rig.state().join("ballast"));
    let mut file = file.map_err(|error| failed(format!("can't fill the disk: {error}")))?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(())
}

/// Submits until the server refuses a job; returns the message.
fn submit_until_refused(
    rig: &Rig,
    job: &JobCreate,
    acknowledged: &mut Vec<String>,
) -> Result<String> {
    let client = rig.client();
    // The store's own files may have some space left.
    while acknowledged.len() < 5000 {
        rig.stop.check()?;
        match client.submit(job, Some(&gpool_client::new_key())) {
            Ok(job) => acknowledged.push(job.id),
            Err(error) => {
                let problem = error.problem();
                return Ok(format!("{} {}", problem.status, problem.detail));
            }
        }
    }
    Err(failed("the disk did not fill up"))
}
