//! GPUs that hang, break and are lost, and GPUs that another process takes. They are simulated, so
//! this runs on any machine; the code behind the driver is that for real GPUs.

use std::time::{Duration, Instant};

use gpool_cli::failure::{Failure, Result};
use gpool_model::DeviceState;
use gpool_model::job::JobState;

use super::rig::{Random, Rig, Stop, on_gpus};
use super::{Options, Outcome};
use crate::bench::figure::{Figure, Ranked};

/// Waits until a GPU is reported like this; returns the seconds.
fn shown(rig: &Rig, gpu: usize, is_so: impl Fn(&gpool_wire::Gpu) -> bool) -> Result<f64> {
    let client = rig.client();
    rig.stop.until_so(&format!("gpool shows the state of GPU {gpu}"), || {
        client.gpus().is_ok_and(|gpus| gpus.items.get(gpu).is_some_and(&is_so))
    })
}

/// Lets the driver hang on one GPU while jobs run on all, and breaks three others.
pub fn driver(options: &Options, stop: &Stop) -> Result<Outcome> {
    let hang_s = options.amount(60, 8);
    let rig = Rig::up("sim:5xH100-80G", stop)?;
    let go = rig.path("go").display().to_string();
    let line = format!("while [ ! -e {go} ]; do sleep 0.05; done; exit 5");
    let jobs: Vec<_> = (0..4).map(|_| rig.submit(&on_gpus(1, &line))).collect::<Result<_>>()?;
    let client = rig.client();
    stop.until_so("all jobs run", || {
        let is_running =
            |id: &String| client.job(id).is_ok_and(|job| job.state == JobState::Running);
        jobs.iter().all(is_running)
    })?;
    rig.gpool(&["sim", "hang", "0"])?;
    let began = Instant::now();
    let seen_hang = shown(&rig, 0, |gpu| gpu.state == DeviceState::Unknown)?;
    let mut answers = Vec::new();
    let mut starts = Vec::new();
    while began.elapsed() < Duration::from_secs(u64::from(hang_s)) {
        let asked = Instant::now();
        client.status().map_err(Failure::from)?;
        answers.push(asked.elapsed().as_secs_f64() * 1000.0);
        let asked = Instant::now();
        let id = rig.submit(&on_gpus(1, "true"))?;
        rig.ended(&id)?;
        starts.push(asked.elapsed().as_secs_f64());
        stop.pause(Duration::from_millis(100))?;
    }
    let mut seen_faults = Vec::new();
    let faults: [(&str, &[&str], DeviceState); 3] = [
        ("1", &["--why", "Xid 79"], DeviceState::Unhealthy),
        ("2", &["--why", "Xid 48"], DeviceState::Unhealthy),
        ("3", &["--lost"], DeviceState::Lost),
    ];
    for (ix, (gpu, how, state)) in faults.into_iter().enumerate() {
        rig.gpool(&[&["sim", "break", gpu], how].concat())?;
        seen_faults.push(shown(&rig, ix + 1, |gpu| gpu.state == state)?);
    }
    rig.gpool(&["sim", "unhang", "0"])?;
    let back = shown(&rig, 0, |gpu| gpu.state == DeviceState::Busy)?;
    rig.write("go", "")?;
    let ends = jobs.iter().map(|id| rig.ended(id)).collect::<Result<Vec<_>>>()?;
    let n_harmed =
        ends.iter().filter(|job| job.run.exit_code != Some(5) || job.run.attempt != 1).count();
    rig.end()?;
    let answers = Ranked::of(answers);
    let worst = |all: Vec<f64>| Ranked::of(all).percentile(100);
    let figures = vec![
        Figure::new(
            "nvml_answer_ms",
            "API while a GPU hangs, slowest",
            answers.percentile(100),
            "ms",
        )
        .below(1000.0),
        Figure::new("nvml_start_s", "job on another GPU meanwhile, slowest", worst(starts), "s"),
        Figure::new("nvml_hang_seen_s", "until gpool shows a hang", seen_hang, "s").below(10.0),
        Figure::new(
            "nvml_fault_seen_s",
            "until gpool shows a fault, slowest",
            worst(seen_faults),
            "s",
        )
        .below(10.0),
        Figure::new("nvml_back_s", "until the GPU is used again after a hang", back, "s"),
        Figure::new("nvml_harmed", "harmed jobs, of 4 running", n_harmed as f64, "jobs")
            .exactly(0.0),
    ];
    let did = format!("simulated GPUs: one hung for {hang_s} s, Xid 79, Xid 48, one lost");
    Ok(Outcome::Done { did, figures })
}

/// Starts a foreign process on a GPU, at times independent of the agent's checks.
pub fn rival(options: &Options, stop: &Stop) -> Result<Outcome> {
    let n_rivals = options.amount(12, 3);
    let rig = Rig::up("sim:2xH100-80G", stop)?;
    let mut random = Random::new();
    let (mut seen, mut n_placed, mut n_between) = (Vec::new(), 0, 0);
    for _ in 0..n_rivals {
        stop.pause(Duration::from_millis(random.below(10_000)))?;
        rig.gpool(&["sim", "add-process", "0", "--pid", "4000001", "--user", "eve"])?;
        seen.push(shown(&rig, 0, |gpu| !gpu.unmanaged.is_empty())?);
        n_placed += on_first(&rig, 4)?;
        leaves(&rig)?;
        // Another one arrives just before a job does, unnoticed.
        rig.gpool(&["sim", "add-process", "0", "--pid", "4000001", "--user", "eve"])?;
        n_between += on_first(&rig, 1)?;
        leaves(&rig)?;
    }
    rig.end()?;
    let slowest = Ranked::of(seen.clone()).percentile(100);
    let jobs =
        |name, what, value: usize| Figure::new(name, what, value as f64, "jobs").exactly(0.0);
    let figures = vec![
        Figure::new("rival_seen_s", "until gpool shows the foreign process, slowest", slowest, "s")
            .below(10.0)
            .with_samples(&seen),
        jobs("rival_placed", "jobs started on a GPU with a known foreign process", n_placed),
        jobs("rival_between", "jobs started beside a process that had just begun", n_between),
    ];
    let did = format!("a foreign process on a simulated GPU, {n_rivals} times at random moments");
    Ok(Outcome::Done { did, figures })
}

fn leaves(rig: &Rig) -> Result<f64> {
    rig.gpool(&["sim", "remove-process", "0", "--pid", "4000001"])?;
    shown(rig, 0, |gpu| gpu.state == DeviceState::Free)
}

/// Runs jobs one after the other, and counts those on the first GPU.
fn on_first(rig: &Rig, n_jobs: u32) -> Result<usize> {
    let mut n_there = 0;
    for _ in 0..n_jobs {
        let id = rig.submit(&on_gpus(1, "true"))?;
        let job = rig.ended(&id)?;
        n_there += usize::from(job.placement.iter().any(|placed| placed.devices.contains(&0)));
    }
    Ok(n_there)
}
