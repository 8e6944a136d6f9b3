//! `seff`: how efficiently a job used its resources.

use std::fmt::Write as _;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::FlagSupport::{Covered, Ignored};
use gpool_cli::foreign::flag::Takes::Nothing;
use gpool_cli::foreign::flag::{Flag, Spoken, row};
use gpool_cli::render::clock::span;
use gpool_cli::render::safe::safe;
use gpool_cli::render::words::requested_gpu_hours;
use gpool_cli::session::Session;
use gpool_wire::live_usage::io;
use gpool_wire::{NodeUse, Report};

use super::states;
use super::times::{elapsed, long_time};
use super::tres::Resources;
use crate::shim::{print, read, say_ignored};
use crate::slurm::select;

static FLAGS: &[Flag] = &[
    row("debug", 'd', Nothing, Ignored, "gpool show JOB shows everything"),
    row("version", 'v', Nothing, Covered, "prints gpool's"),
];

pub static SPOKEN: Spoken = Spoken {
    name: "seff",
    about: "Compare the usage of a job with its request",
    flags: &[FLAGS],
    words: "ID",
};

/// The GPU time of a job, and its fraction of the requested GPU time.
fn gpu_lines(report: &Report) -> String {
    let job = &report.job;
    let long = |of: f64| long_time(span(of * 3600.0).get() / 1000);
    let mut text =
        format!("GPUs: {} (gpool report {} shows more)\n", safe(job.request.gpus_text()), job.id);
    if report.n_gpus > 0 {
        let _ = writeln!(text, "GPU Time: {}", long(report.gpu_hours));
        if let Some(busy) = report.gpu_utilization {
            let _ = writeln!(text, "GPU Utilization: {:.0}%", 100.0 * busy);
        }
        for (node, used) in NodeUse::texts(&report.nodes) {
            let _ = writeln!(text, "GPUs on {}: {used}", safe(node));
        }
        let limit = report.job.usage.total.and_then(|usage| usage.gpu_memory_limit);
        if let Some((peak, limit)) = report.gpu_memory_peak.zip(limit) {
            let _ = writeln!(text, "GPU Memory: {} MB of {} MB", peak >> 20, limit >> 20);
        }
        if let Some(asked) = requested_gpu_hours(report) {
            let percent = 100.0 * report.gpu_hours / asked;
            let _ = writeln!(text, "GPU Time Limit: {percent:.0}% of {}", long(asked));
        }
    }
    text
}

/// Runs the command.
pub fn run(words: &[String], session: &Session) -> Result {
    let Some(args) = read(&SPOKEN, words, session)? else { return Ok(Exit::OK) };
    say_ignored(&args, session);
    let ids = select::ids(args.words.iter().cloned())?;
    let [id] = ids.as_slice() else {
        return Err(Failure::new(errors::USAGE, "seff: give one job").tip("seff 17"));
    };
    let report = session.client()?.report(id)?;
    let job = &report.job;
    let wall = elapsed(job, session.view().now).unwrap_or(0);
    let held = Resources::of(job);
    let cores = held.cpus;
    let used = job.usage.total.map_or(0, |usage| span(usage.cpu_user_s + usage.cpu_system_s).get());
    let mut text = String::new();
    let _ = writeln!(text, "Job ID: {}", job.id.replace('.', "_"));
    let _ = writeln!(text, "Cluster: gpool");
    let _ = writeln!(text, "User/Group: {0}/{0}", safe(&job.user));
    let (_, state) = states::state(job);
    let _ = writeln!(text, "State: {state} (exit code {})", job.run.exit_code.unwrap_or(0));
    if held.nodes > 1 {
        let _ = writeln!(text, "Nodes: {}", held.nodes);
        let _ = writeln!(text, "Cores per node: {}", cores.div_ceil(held.nodes));
    } else {
        let _ = writeln!(text, "Cores: {cores}");
    }
    let _ = writeln!(text, "CPU Utilized: {}", long_time(used / 1000));
    let core_time = wall * cores;
    let percent = (used / 10).checked_div(core_time).unwrap_or(0);
    let of = long_time(core_time);
    let _ = writeln!(text, "CPU Efficiency: {percent}% of {of} core-walltime");
    let _ = writeln!(text, "Job Wall-clock time: {}", long_time(wall));
    let together = job.usage.total.and_then(|usage| usage.memory_peak_together);
    let (peak, scope) = match together {
        Some(peak) => (peak, "of all processes, with cached files"),
        None => (job.usage.total.map_or(0, |usage| usage.memory_peak), "of one process"),
    };
    let _ = writeln!(text, "Memory Utilized: {} MB ({scope})", peak >> 20);
    match job.request.mem_bytes() {
        Some(booked) if booked > 0 => {
            let percent = peak.saturating_mul(100) / booked;
            let _ = writeln!(text, "Memory Efficiency: {percent}% of {} MB", booked >> 20);
        }
        _ => text.push_str("Memory Efficiency: no memory was requested\n"),
    }
    if let Some(io) = io(report.read_bytes, report.written_bytes) {
        let _ = writeln!(text, "Disk: {io}");
    }
    text.push_str(&gpu_lines(&report));
    for xid in &job.run.xids {
        let _ = writeln!(text, "GPU Error: {}", safe(&xid.text()));
    }
    for hint in &report.hints {
        let flags = hint.flags.as_ref().map(|flags| format!(": {flags} would be enough"));
        let _ = writeln!(text, "Hint: {}{}", hint.text, flags.unwrap_or_default());
    }
    print(&text, session)
}
