//! Measures a server with many waiting jobs: their submission in one call, lists, and a restart
//! after kill -9.

use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gpool_cli::cluster::{Cluster, PATIENCE};
use gpool_cli::failure::{Failure, Result};
use gpool_client::new_key;
use gpool_model::job::JobState;
use gpool_wire::JobCreate;

use super::figure::{Figure, Ranked};
use super::process::memory_of;
use super::{Options, failed};

/// Fills the queue behind a job with every GPU, reads it, kills the server, ends that job, and
/// starts the server again.
///
/// # Errors
/// The server refuses something, or does not come back.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let mut cluster = super::cluster(&options.devices)?;
    let holder = hold_all(&cluster)?;
    let lines = lines(options.pending);
    let n = options.pending;
    let began = Instant::now();
    let answer = cluster
        .client()
        .submit_many(&mut Cursor::new(lines.into_bytes()), Some(&new_key()))
        .map_err(Failure::from)?;
    let bulk_s = began.elapsed().as_secs_f64();
    let memory_at_once = memory_of(cluster.server_pid());
    let first: u64 = answer.first.parse().map_err(|_| failed("an ID is not a number"))?;
    let last = (first + answer.n_jobs - 1).to_string();
    let queue = time_command(&cluster, &["queue"])?;
    let why = time_command(&cluster, &["why", &last])?;
    let memory = memory_of(cluster.server_pid());
    let (restart_s, memory_after) = restart(&mut cluster, holder, &answer.first)?;
    cluster.end()?;
    let with = format!("with {n} pending");
    Ok(vec![
        Figure::new(
            "bulk_per_s",
            format!("durable submissions, {n} in one call"),
            f64::from(n) / bulk_s,
            "jobs/s",
        )
        .above(50_000.0),
        Figure::new(
            "bulk_memory_mb",
            "memory right after the submission",
            memory_at_once as f64 / 1e6,
            "MB",
        ),
        Figure::new("pending_memory_mb", format!("memory {with}"), memory as f64 / 1e6, "MB")
            .below(300.0),
        Figure::new("queue_ms", format!("gpool queue {with}"), queue, "ms").below(200.0),
        Figure::new("why_ms", format!("gpool why of the last, {with}"), why, "ms").below(200.0),
        Figure::new(
            "restart_s",
            format!("kill -9, start to first decision {with}"),
            restart_s,
            "s",
        )
        .below(2.0),
        Figure::new(
            "restarted_memory_mb",
            "memory after the restart",
            memory_after as f64 / 1e6,
            "MB",
        )
        .below(300.0),
    ])
}

/// Starts a job with every GPU; returns its process id.
pub fn hold_all(cluster: &Cluster) -> Result<i32> {
    let n_gpus = cluster.client().gpus().map_err(Failure::from)?.items.len();
    let path = cluster.folder().join("holder");
    let script = "echo $$ > \"$0.partial\"; mv \"$0.partial\" \"$0\"; exec sleep 1d";
    let command = ["sh", "-c", script].map(str::to_owned).into_iter();
    let create = JobCreate {
        command: command.chain([path.to_string_lossy().into_owned()]).collect(),
        gpus: Some(n_gpus.to_string()),
        directory: Some("/".to_owned()),
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        ..JobCreate::default()
    };
    cluster.client().submit(&create, None).map_err(Failure::from)?;
    let read = || std::fs::read_to_string(&path).ok()?.trim().parse().ok();
    until("the job that uses all GPUs did not start in time", read)
}

/// Jobs for 1 to 8 GPUs that keep running once started.
pub fn lines(n: u32) -> String {
    let mut lines = String::from(
        "{\"defaults\":{\"directory\":\"/\",\"environment\":{\"PATH\":\"/usr/bin:/bin\"}}}\n",
    );
    for n in 0..n {
        let gpus = n % 8 + 1;
        lines += &format!(
            "{{\"command\":[\"sleep\",\"1d\"],\"gpus\":\"{gpus}\",\"name\":\"sweep-{n}\"}}\n"
        );
    }
    lines
}

/// The median of nine runs of a command, in milliseconds.
pub fn time_command(cluster: &Cluster, words: &[&str]) -> Result<f64> {
    let gpool = super::gpool()?;
    let once = || -> Result<f64> {
        let began = Instant::now();
        let status = Command::new(&gpool)
            .args(words)
            .env("GPOOL_SOCKET", cluster.socket())
            .current_dir(Path::new("/"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => Ok(began.elapsed().as_secs_f64() * 1000.0),
            _ => Err(failed(format!("gpool {} failed", words.join(" ")))),
        }
    };
    let measured = (0..9).map(|_| once()).collect::<Result<_>>()?;
    Ok(Ranked::of(measured).percentile(50))
}

/// Kills the server, ends the job with every GPU, starts the server and waits until the first
/// waiting job has its GPU. Returns the seconds from the start of the server, and its memory then.
fn restart(cluster: &mut Cluster, holder: i32, first: &str) -> Result<(f64, u64)> {
    cluster.kill_server()?;
    let holder = rustix::process::Pid::from_raw(holder).ok_or_else(|| failed("no process id"))?;
    rustix::process::kill_process(holder, rustix::process::Signal::KILL)
        .map_err(|error| failed(format!("can't end the job that uses all GPUs: {error}")))?;
    let began = Instant::now();
    cluster.start_server()?;
    cluster.wait_until_ready()?;
    let client = cluster.client();
    let is_given = || {
        let state = client.job(first).ok()?.state;
        matches!(state, JobState::Starting | JobState::Running).then_some(())
    };
    until("the server made no decision after the restart", is_given)?;
    Ok((began.elapsed().as_secs_f64(), memory_of(cluster.server_pid())))
}

pub fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(failed(what));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
