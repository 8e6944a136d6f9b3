//! kill -9 of the server with the agent in it: under load, and while jobs run and end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gpool_cli::failure::Result;
use gpool_client::Client;
use gpool_model::job::JobState;

use super::rig::{Random, Rig, Stop, on_gpus, shell};
use super::{Options, Outcome};
use crate::bench::failed;
use crate::bench::figure::Figure;

const DEVICES: &str = "sim:8xH100-80G";
const N_SUBMITTERS: usize = 3;

/// Number and id of each acknowledged job.
type Acknowledged = BTreeMap<usize, String>;

/// Kills the server repeatedly while jobs are submitted, start and end.
pub fn server(options: &Options, stop: &Stop) -> Result<Outcome> {
    let n_kills = options.amount(40, 5);
    let n_jobs = options.amount(1200, 200) as usize;
    let mut rig = Rig::up(DEVICES, stop)?;
    let mut random = Random::new();
    let trace = rig.path("trace").display().to_string();
    let acknowledged = std::thread::scope(|scope| -> Result<Acknowledged> {
        let submitters: Vec<_> = (0..N_SUBMITTERS)
            .map(|first| {
                let (client, trace) = (rig.patient_client(), &trace);
                scope.spawn(move || {
                    submit(&client, trace, (first..n_jobs).step_by(N_SUBMITTERS), stop)
                })
            })
            .collect();
        for _ in 0..n_kills {
            stop.pause(Duration::from_millis(random.below(150)))?;
            rig.kill();
            rig.launch()?;
            if random.below(2) == 0 {
                // During its start.
                stop.pause(Duration::from_millis(random.below(60)))?;
                rig.kill();
                rig.launch()?;
            }
            rig.wait_until_ready()?;
        }
        let all = submitters
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(failed("a submitter panicked"))));
        Ok(all.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    })?;
    let client = rig.patient_client();
    stop.until("all jobs have ended", || client.status().ok().filter(|it| it.jobs.is_empty()))?;
    let figures = count(&rig, &acknowledged)?;
    rig.end()?;
    let did =
        format!("kill -9 at {n_kills} random moments, {} jobs acknowledged", acknowledged.len());
    Ok(Outcome::Done { did, figures })
}

fn submit(
    client: &Client,
    trace: &str,
    numbers: impl Iterator<Item = usize>,
    stop: &Stop,
) -> Result<Vec<(usize, String)>> {
    let mut told = Vec::new();
    for number in numbers {
        let line = format!("echo $GPOOL_JOB_ID >> {trace}; exit {}", number % 7);
        let job = if number.is_multiple_of(3) { on_gpus(1, &line) } else { shell(&line) };
        let key = format!("faults-{number}");
        // After a kill during the answer, the client repeats the request with the same key.
        let id = stop.until("a job is taken", || client.submit(&job, Some(&key)).ok())?.id;
        told.push((number, id));
    }
    Ok(told)
}

/// Compares the acknowledged jobs with the server's records and with the files of the jobs.
fn count(rig: &Rig, acknowledged: &Acknowledged) -> Result<Vec<Figure>> {
    let client = rig.patient_client();
    let (mut n_lost, mut n_wrong) = (0, 0);
    for (number, id) in acknowledged {
        rig.stop.check()?;
        let exit = i32::try_from(number % 7).ok();
        match client.job(id) {
            Ok(job) if job.state == JobState::Lost => n_lost += 1,
            Ok(job) if job.run.exit_code != exit => n_wrong += 1,
            Ok(_) => {}
            Err(_) => n_lost += 1,
        }
    }
    let written = std::fs::read_to_string(rig.path("trace")).unwrap_or_default();
    let n_starts = written.lines().count();
    let started: BTreeSet<&str> = written.lines().collect();
    let ids: BTreeSet<&str> = acknowledged.values().map(String::as_str).collect();
    let n_never = ids.difference(&started).count();
    let is_sound = rig.gpool(&["verify", &rig.state().display().to_string()]).is_ok();
    let jobs =
        |name, what, value: usize| Figure::new(name, what, value as f64, "jobs").exactly(0.0);
    Ok(vec![
        jobs("kill_lost", "lost acknowledged jobs", n_lost),
        jobs("kill_twice", "jobs that ran twice, by their output", n_starts - started.len()),
        jobs("kill_never", "jobs that ended without a run", n_never),
        jobs("kill_wrong", "wrong exit codes", n_wrong),
        jobs("kill_reused", "IDs assigned twice", acknowledged.len() - ids.len()),
        jobs("kill_damage", "damage found by verify", usize::from(!is_sound)),
    ])
}

/// Kills the agent while jobs run; half of them end before the next agent starts.
pub fn agent(options: &Options, stop: &Stop) -> Result<Outcome> {
    let n_rounds = options.amount(10, 2);
    let mut rig = Rig::up(DEVICES, stop)?;
    let (mut n_kept, mut n_right, mut n_jobs, mut n_starts) = (0, 0, 0, 0);
    for round in 0..n_rounds {
        let mut jobs = Vec::new();
        for number in 0..16 {
            let name = format!("{round}-{number}");
            let at = rig.path(&name).display().to_string();
            let line = format!(
                "echo $$ >> {at}; while [ ! -e {at}.go ]; do sleep 0.05; done; exit {number}"
            );
            let job = if number < 8 { on_gpus(1, &line) } else { shell(&line) };
            jobs.push((number, name.clone(), rig.submit(&job)?));
        }
        let mut pids = Vec::new();
        for (_, name, _) in &jobs {
            pids.push(rig.read(name)?.trim().parse::<u32>().unwrap_or(0));
        }
        rig.kill();
        let (end_now, end_later): (Vec<_>, Vec<_>) =
            jobs.iter().zip(&pids).partition(|((number, ..), _)| number % 2 == 0);
        for ((_, name, _), pid) in &end_now {
            rig.write(&format!("{name}.go"), "")?;
            stop.until_so("a job ends without an agent", || {
                gpool_sys::proc::stat(**pid).is_none()
            })?;
        }
        rig.start()?;
        for ((_, name, id), pid) in &end_later {
            let is_kept = rig.client().job(id).is_ok_and(|job| job.state == JobState::Running)
                && gpool_sys::proc::stat(**pid).is_some();
            n_kept += usize::from(is_kept);
            rig.write(&format!("{name}.go"), "")?;
        }
        for (number, name, id) in &jobs {
            n_right += usize::from(rig.ended(id)?.run.exit_code == Some(*number));
            n_starts += rig.read(name)?.lines().count();
            n_jobs += 1;
        }
    }
    rig.end()?;
    let did = format!("kill -9 of the agent, {n_rounds} times with 16 jobs; half of them then end");
    let n_running = n_jobs / 2;
    let jobs =
        |name, what, value: usize| Figure::new(name, what, value as f64, "jobs").exactly(0.0);
    let figures = vec![
        jobs("agentkill_gone", "jobs that did not continue", n_running - n_kept),
        jobs("agentkill_wrong", "wrong or lost exit codes", n_jobs - n_right),
        jobs("agentkill_twice", "jobs that ran twice", n_starts - n_jobs),
    ];
    Ok(Outcome::Done { did, figures })
}
