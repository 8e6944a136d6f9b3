//! The checks of `gpool doctor` for each GPU: the level of enforcement, and the mechanisms that
//! work.

use gpool_cli::render::words::indexes;
use gpool_model::enforcement::Enforcement;
use gpool_wire::Gpu;
use gpool_wire::gpu::GpuEnforcement;

use super::{Probe, less, off, ok};

/// The rows of all GPUs; equal GPUs of a node have rows in common.
pub(super) fn rows(gpus: &[Gpu]) -> Vec<Probe> {
    let mut alike: Vec<(Kind<'_>, Vec<u32>)> = Vec::new();
    for gpu in gpus {
        let kind = (gpu.node.as_str(), &gpu.enforcement, gpu.part_of.is_some());
        match alike.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, indexes)) => indexes.push(gpu.index),
            None => alike.push((kind, vec![gpu.index])),
        }
    }
    alike.into_iter().flat_map(|(kind, gpus)| of(kind, &gpus)).collect()
}

/// Node, enforcement, and whether they are MIG instances.
type Kind<'a> = (&'a str, &'a GpuEnforcement, bool);

fn of((node, levels, are_instances): Kind<'_>, gpus: &[u32]) -> Vec<Probe> {
    let place = format!("{node}:{}", indexes(gpus));
    let text = match are_instances {
        true => format!("{place}: MIG instances {}", levels.whole),
        false => format!("{place}: whole GPUs {}, shares {}", levels.whole, levels.share),
    };
    let is_booked = levels.share == Enforcement::Booked.as_str();
    let mut rows = vec![match is_booked {
        true => less("enforcement", format!("{text}; no job is checked")),
        false => ok("enforcement", text),
    }];
    rows.extend(levels.mechanisms.iter().map(|it| match &it.why_not {
        None => ok(it.name.as_str(), format!("{place}: works")),
        Some(why) if is_booked => less(it.name.as_str(), format!("{place}: does not work: {why}")),
        Some(why) => off(it.name.as_str(), format!("{place}: does not work: {why}")),
    }));
    rows
}
