//! The use of a job's GPUs on each of its nodes, from the recorded minutes.

use gpool_history::{ChartLine, DeviceSeries, Point, Step, Totals};
use gpool_model::{DeviceUuid, Refusal, Timestamp};
use gpool_wire::{DeviceUse, Job, NodeUse};

use super::UsageHistory;
use super::tenure::Tenure;

/// The use on each node in a range.
pub fn of_job(
    store: &UsageHistory,
    job: &str,
    range: (Timestamp, Timestamp),
) -> Result<Vec<NodeUse>, Refusal> {
    let nodes = store.nodes_of_job(job, range)?;
    Ok(nodes.into_iter().map(|(node, totals)| of_node(node, totals)).collect())
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn of_node(node: String, totals: Totals) -> NodeUse {
    let Totals { allocated_ms, busy_ms, busy_of_ms, .. } = totals;
    let gpu_utilization = (busy_of_ms > 0).then(|| busy_ms as f64 / busy_of_ms as f64);
    NodeUse { node, gpu_hours: allocated_ms as f64 / 3.6e6, gpu_utilization, gpus: Vec::new() }
}

/// Adds the whole GPUs of a job's tasks, by the minutes that they were its own. On a part of a GPU,
/// the records are those of all its jobs.
pub fn add_devices(
    store: &UsageHistory,
    nodes: &mut [NodeUse],
    job: &Job,
    tenure: &Tenure,
) -> Result<(), Refusal> {
    let series = [DeviceSeries::Utilization, DeviceSeries::MemoryUsed];
    let placed = |uuid: &str| {
        let places = job.placement.iter().flat_map(|task| {
            task.uuids.iter().zip(&task.devices).map(|(uuid, index)| (uuid, &task.node, *index))
        });
        let mut places = places.filter(|(known, ..)| *known == uuid);
        places.next().map(|(_, node, index)| (node.clone(), index))
    };
    for (time, devices) in &tenure.held {
        let span = tenure.whole(*time, Step::MINUTE);
        if span.minutes() == 0 {
            continue;
        }
        let uuids: Vec<&str> = devices.iter().map(DeviceUuid::as_str).collect();
        let chart = store.devices(&uuids, &series, span, Step::fitting(span, 1))?;
        let lines = chart.map_or_else(Vec::new, |chart| chart.lines);
        for (uuid, lines) in uuids.iter().zip(lines.chunks(series.len())) {
            let ([used, memory], Some((name, index))) = (lines, placed(uuid)) else { continue };
            let Some(node) = nodes.iter_mut().find(|node| node.node == name) else { continue };
            let memory_peak = points(memory).map(|it| it.max).reduce(f64::max).map(whole);
            node.gpus.push(DeviceUse { index, utilization: mean(used), memory_peak });
        }
    }
    for node in nodes {
        node.gpus.sort_by_key(|gpu| gpu.index);
    }
    Ok(())
}

fn points(line: &ChartLine) -> impl Iterator<Item = &Point> {
    line.points.iter().flatten()
}

/// The mean over the measured minutes.
pub(super) fn mean(line: &ChartLine) -> Option<f64> {
    let n: f64 = points(line).map(|it| f64::from(it.n_minutes)).sum();
    let sum = points(line).map(|it| it.mean * f64::from(it.n_minutes)).sum::<f64>();
    (n > 0.0).then(|| sum / n)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes, which are not negative"
)]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}
