//! The checks of `gpool doctor` for each GPU: the level of enforcement, and the mechanisms that
//! work.

use gpool_cli::render::words::indexes;
use gpool_model::enforcement::Enforcement;
use gpool_wire::Gpu;
use gpool_wire::gpu::GpuEnforcement;

use super::{Probe, less, ok};

/// The rows of all GPUs; equal GPUs of a node have rows in common.
pub(super) fn rows(gpus: &[Gpu]) -> Vec<Probe> {
    let mut alike: Vec<(&str, &GpuEnforcement, Vec<u32>)> = Vec::new();
    for gpu in gpus.iter().filter(|gpu| gpu.part_of.is_none()) {
        let known = alike
            .iter_mut()
            .find(|(node, levels, _)| (*node, *levels) == (gpu.node.as_str(), &gpu.enforcement));
        match known {
            Some((_, _, indexes)) => indexes.push(gpu.index),
            None => alike.push((&gpu.node, &gpu.enforcement, vec![gpu.index])),
        }
    }
    alike.into_iter().flat_map(|(node, levels, gpus)| of(node, levels, &gpus)).collect()
}

fn of(node: &str, levels: &GpuEnforcement, gpus: &[u32]) -> Vec<Probe> {
    let place = format!("{node}:{}", indexes(gpus));
    let text = format!("{place}: whole GPUs {}, shares {}", levels.whole, levels.share);
    let is_booked = levels.share == Enforcement::Booked.as_str();
    let mut rows = vec![match is_booked {
        true => less("enforcement", format!("{text}; no job is checked")),
        false => ok("enforcement", text),
    }];
    rows.extend(levels.mechanisms.iter().map(|it| match &it.why_not {
        None => ok(it.name.as_str(), format!("{place}: works")),
        Some(why) if is_booked => less(it.name.as_str(), format!("{place}: no: {why}")),
        Some(why) => ok(it.name.as_str(), format!("{place}: no: {why}")),
    }));
    rows
}
