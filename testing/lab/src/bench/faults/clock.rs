//! Makes the clock jump forwards and back and run fast for server, agent and shepherds, with
//! libfaketime, since the machine's own clock affects everything. Jobs measure their run time by
//! the machine's uptime.

use std::path::PathBuf;
use std::time::Duration;

use gpool_cli::failure::{Failure, Result};
use gpool_model::job::JobState;
use gpool_wire::{JobCreate, Quantity};

use super::rig::{Rig, Stop, shell};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::Figure;

/// Time limit of the jobs, in seconds.
const LIMIT_S: f64 = 3.0;

/// Changes the clock while jobs with time limits run.
pub fn measure(options: &Options, stop: &Stop) -> Result<Outcome> {
    let Some(library) = library() else {
        return Ok(Outcome::skipped("libfaketime is not installed (apt-get install libfaketime)"));
    };
    let n_rounds = options.amount(4, 1);
    let mut rig = Rig::new("sim:1xH100-80G", stop)?;
    let file = rig.path("clock").display().to_string();
    for (name, value) in [
        ("LD_PRELOAD", library.display().to_string().as_str()),
        ("FAKETIME_TIMESTAMP_FILE", &file),
        ("FAKETIME_NO_CACHE", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("FAKETIME_DISABLE_SHM", "1"),
        ("NO_FAKE_STAT", "1"),
    ] {
        rig.set(name, value);
    }
    set(&rig, "+0")?;
    rig.start()?;
    // Its time limit is half as long as the jump of the clock.
    let go = rig.path("go").display().to_string();
    let line = format!("while [ ! -e {go} ]; do sleep 0.05; done; exit 5");
    let runs = rig.submit(&JobCreate {
        gpus: Some("1".to_owned()),
        time: Some(Quantity::Text("30m".to_owned())),
        ..shell(&line)
    })?;
    let waits = rig.submit(&JobCreate { gpus: Some("1".to_owned()), ..shell("exit 6") })?;
    let mut errors = Vec::new();
    let mut n_changes = 0;
    let mut last_submitted = None;
    let mut n_backwards = 0;
    for _ in 0..n_rounds {
        for how in ["+1h", "-1h", "+0", "+0 x2"] {
            let id = rig.submit(&limited(&rig, n_changes))?;
            stop.pause(Duration::from_millis(1000))?;
            set(&rig, how)?;
            n_changes += 1;
            let job = rig.ended(&id)?;
            if job.state != JobState::TimedOut {
                return Err(failed(format!("a job with a limit is {:?}", job.state)));
            }
            errors.push((lived(&rig, n_changes - 1)? - LIMIT_S).abs());
            n_backwards += usize::from(Some(job.submitted_at) < last_submitted);
            last_submitted = Some(job.submitted_at);
        }
    }
    let client = rig.client();
    let is_so = |id: &str, state| client.job(id).map_err(Failure::from).map(|it| it.state == state);
    let n_harmed = usize::from(!is_so(&runs, JobState::Running)?)
        + usize::from(!is_so(&waits, JobState::Pending)?);
    rig.write("go", "")?;
    let n_wrong = usize::from(rig.ended(&runs)?.run.exit_code != Some(5))
        + usize::from(rig.ended(&waits)?.run.exit_code != Some(6));
    rig.end()?;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let none =
        |name, what, value: usize| Figure::new(name, what, value as f64, "jobs").exactly(0.0);
    let figures = vec![
        none("clock_killed", "jobs killed or started by a jump", n_harmed),
        none("clock_wrong", "wrong or lost exit codes", n_wrong),
        none("clock_backwards", "jobs listed before an earlier one", n_backwards),
        Figure::new("clock_limit_error_s", "largest error of a limit of 3 s", worst, "s")
            .below(1.0)
            .with_samples(&errors),
    ];
    let did = format!("the clock was set {n_changes} times: +1 h, 2 h back, right, twice as fast");
    Ok(Outcome::Done { did, figures })
}

/// Finds the library in the usual folders of distributions.
fn library() -> Option<PathBuf> {
    let libs = ["/usr/lib", "/usr/lib64"].map(PathBuf::from);
    let below = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let mut files = libs.into_iter().chain(below).map(|dir| dir.join("faketime/libfaketime.so.1"));
    files.find(|file| file.exists())
}

fn set(rig: &Rig, how: &str) -> Result<()> {
    rig.write("clock.draft", &format!("{how}\n"))?;
    std::fs::rename(rig.path("clock.draft"), rig.path("clock"))
        .map_err(|error| failed(format!("can't set the clock: {error}")))
}

/// A job that records the machine's uptime until its time limit ends it.
fn limited(rig: &Rig, number: u32) -> JobCreate {
    let at = rig.path(&format!("uptime.{number}")).display().to_string();
    let line = format!("while :; do cut -d' ' -f1 /proc/uptime >> {at}; sleep 0.02; done");
    JobCreate { time: Some(Quantity::Whole(3)), ..shell(&line) }
}

/// The run time of the job.
fn lived(rig: &Rig, number: u32) -> Result<f64> {
    let text = rig.read(&format!("uptime.{number}"))?;
    let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    match (times.first(), times.last()) {
        (Some(first), Some(last)) => Ok(last - first),
        _ => Err(failed("a job wrote no time")),
    }
}
