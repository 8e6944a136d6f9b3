//! Jobs that exceed their memory, and jobs with processes that try to escape.

use std::process::{Command, Stdio};
use std::time::Instant;

use gpool_cli::failure::{Failure, Result};
use gpool_model::job::JobState;
use gpool_sys::capability::{Capabilities, LimitMechanism};
use gpool_wire::{JobCreate, Quantity};

use super::rig::{Rig, Stop, shell};
use super::{Options, Outcome};
use crate::bench::figure::{Figure, Ranked};

/// Runs jobs that use more memory than they requested.
pub fn memory(options: &Options, stop: &Stop) -> Result<Outcome> {
    if !matches!(Capabilities::probe().memory, LimitMechanism::CgroupV1 | LimitMechanism::CgroupV2)
    {
        return Ok(Outcome::skipped("no usable memory cgroup; gpool doctor shows more"));
    }
    let n_jobs = options.amount(20, 4);
    let mut rig = Rig::up("none", stop)?;
    let go = rig.path("go").display().to_string();
    let line = format!("while [ ! -e {go} ]; do sleep 0.05; done; exit 5");
    let beside = rig.submit(&shell(&line))?;
    let (mut n_said, mut n_ended) = (0, 0);
    for _ in 0..n_jobs {
        let greedy = shell("head -c 400m /dev/zero | tail");
        let id =
            rig.submit(&JobCreate { mem: Some(Quantity::Text("64M".to_owned())), ..greedy })?;
        let job = rig.ended(&id)?;
        n_ended += u32::from(job.state == JobState::Failed);
        n_said += u32::from(job.run.cause.as_deref() == Some("oom"));
    }
    let n_dead = u32::from(!rig.server_lives());
    let adjusted = std::fs::read_to_string(format!("/proc/{}/oom_score_adj", rig.server_pid()));
    let adjusted: f64 = adjusted.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(f64::NAN);
    rig.write("go", "")?;
    let n_harmed = u32::from(rig.ended(&beside)?.run.exit_code != Some(5));
    rig.end()?;
    let score = Figure::new("oom_score_adj", "oom_score_adj of server and agent", adjusted, "");
    let jobs =
        |name, what, value: u32| Figure::new(name, what, f64::from(value), "jobs").exactly(0.0);
    let figures = vec![
        jobs(
            "oom_not_ended",
            "jobs above their memory limit that were not ended",
            n_jobs - n_ended,
        ),
        jobs("oom_not_said", "jobs ended without the reason", n_jobs - n_said),
        jobs("oom_harmed", "other jobs harmed", n_harmed),
        Figure::new("oom_servers", "servers and agents ended", f64::from(n_dead), "").exactly(0.0),
        if may_lower_score() { score.exactly(-900.0) } else { score },
    ];
    let did = format!("{n_jobs} jobs with a limit of 64 MiB that use 400 MiB");
    Ok(Outcome::Done { did, figures })
}

/// Whether this user can protect a server from the OOM killer; root in a container often can't.
fn may_lower_score() -> bool {
    let mut tries = Command::new("sh");
    tries.args(["-c", "echo -900 > /proc/self/oom_score_adj"]).stderr(Stdio::null());
    tries.status().is_ok_and(|status| status.success())
}

/// Ways to escape: each creates processes that must end with the job.
const ESCAPES: [(&str, &str); 3] = [
    (
        "bomb",
        "b() { trap '' TERM; [ $1 -gt 7 ] || { b $(($1+1)) & b $(($1+1)) & }; sleep 1000; }; b 0",
    ),
    (
        "away",
        "for n in 1 2 3 4 5 6 7 8; do (setsid sh -c 'trap \"\" TERM HUP; (setsid sleep 1000 &); \
         while :; do sleep 1000; done' &); done; sleep 1000",
    ),
    ("deaf", "trap '' TERM HUP INT; while :; do sleep 1000; done"),
];

/// Cancels jobs that resist, and times it until none of their processes is left.
pub fn processes(options: &Options, stop: &Stop) -> Result<Outcome> {
    const GRACE_S: f64 = 1.0;
    let n_rounds = options.amount(5, 1);
    let rig = Rig::up("none", stop)?;
    let client = rig.client();
    let (mut over, mut n_left, mut n_most) = (Vec::new(), 0, 0);
    for _ in 0..n_rounds {
        for (_, line) in ESCAPES {
            let grace = Some(Quantity::Decimal(GRACE_S));
            let id = rig.submit(&JobCreate { grace, ..shell(line) })?;
            // Until it has created all its processes: two equal counts.
            let mut last = 0;
            stop.until_so("the job has grown", || {
                let before = std::mem::replace(&mut last, rig.processes_of(&id).len());
                std::thread::sleep(std::time::Duration::from_millis(200));
                last > 0 && last == before
            })?;
            n_most = n_most.max(last);
            let asked = Instant::now();
            client.cancel(std::slice::from_ref(&id)).map_err(Failure::from)?;
            stop.until_so("no process is left", || rig.processes_of(&id).is_empty())?;
            over.push(asked.elapsed().as_secs_f64() - GRACE_S);
            rig.ended(&id)?;
            n_left += rig.processes_of(&id).len();
        }
    }
    rig.end()?;
    let slowest = Ranked::of(over.clone()).percentile(100);
    let figures = vec![
        Figure::new(
            "fork_gone_s",
            "until all processes end, after 1 s of grace, slowest",
            slowest,
            "s",
        )
        .below(1.0)
        .with_samples(&over),
        Figure::new(
            "fork_left",
            "processes left when gpool reports the end of the job",
            n_left as f64,
            "",
        )
        .exactly(0.0),
        Figure::new("fork_most", "processes of the largest job", n_most as f64, ""),
    ];
    let did = format!(
        "fork bombs, daemons and jobs that ignore signals cancelled, {n_rounds} times each"
    );
    Ok(Outcome::Done { did, figures })
}
