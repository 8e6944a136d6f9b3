//! Small charts of the utilization of a job's devices.

use std::fmt::Write as _;

use gpool_wire::usage::{GpuHistory, GpuPoints};
use gpool_wire::{Gpu, Job};

use crate::text::{gib, percent};

/// The size of a chart.
const WIDTH: usize = 300;
const HEIGHT: f64 = 48.0;
/// More devices than this are not drawn.
const CHARTS_MAX: usize = 16;

/// The chart of a device.
#[derive(Debug, Clone)]
pub struct Chart {
    pub name: String,
    /// The measured areas as one path; empty without a measurement.
    pub path: String,
    pub text: String,
}

/// The devices of a job that has started, each with its chart.
pub fn charts(job: &Job, gpus: &[Gpu], history: &GpuHistory) -> Vec<Chart> {
    let uuids = job.placement.iter().flat_map(|task| &task.uuids);
    let chart = |uuid: &String| {
        let gpu = gpus.iter().find(|gpu| gpu.uuid == *uuid)?;
        let points = history.gpus.iter().find(|points| points.uuid == *uuid);
        let now = match (gpu.utilization.map(percent), gpu.memory_used) {
            _ if job.state.is_end() => String::new(),
            (Some(used), Some(memory)) => {
                format!("{used} % now, {} of {}", gib(memory), gib(gpu.memory_total))
            }
            (Some(used), None) => format!("{used} % now"),
            (None, _) => "use not known".to_owned(),
        };
        Some(Chart {
            name: format!("{}:{} {}", gpu.node, gpu.index, gpu.model_short),
            path: points.map(path).unwrap_or_default(),
            text: now,
        })
    };
    uuids.filter_map(chart).take(CHARTS_MAX).collect()
}

/// Areas of neighbors that were measured; a single point is a step wide.
fn path(points: &GpuPoints) -> String {
    let mut path = String::new();
    let all = &points.utilization;
    let mut at = 0;
    for run in all.chunk_by(|one, next| one.is_some() == next.is_some()) {
        if run[0].is_some() {
            let x = |ix: usize| ix * WIDTH / all.len();
            // Writing into a string can't fail.
            let _ = write!(path, "M{} {HEIGHT}", x(at));
            for (ix, part) in run.iter().flatten().enumerate() {
                let y = HEIGHT - part.clamp(0.0, 1.0) * HEIGHT;
                let _ = write!(path, "L{} {y:.1}L{} {y:.1}", x(at + ix), x(at + ix + 1));
            }
            let _ = write!(path, "L{} {HEIGHT}z", x(at + run.len()));
        }
        at += run.len();
    }
    path
}
