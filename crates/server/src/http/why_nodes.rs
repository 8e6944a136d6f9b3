//! What each node has for a job that waits: who holds what, until when.

use gpool_control::forecast::{Length, Pace, Source};
use gpool_model::JobSpec;
use gpool_wire::gpu::state_of;
use gpool_wire::{Time, WhyDevice, WhyNode};
use gpool_world::{JobRow, NodeRow};

use crate::handle::View;

/// Every node, in the order of names.
pub(crate) fn of(view: &View<'_>, waiting: &JobRow) -> Vec<WhyNode> {
    let of_node = |node: &NodeRow| {
        let devices: Vec<WhyDevice> =
            (0..node.node.devices.len()).map(|ix| device(view, node, ix, &waiting.spec)).collect();
        let matching = devices.iter().filter(|device| device.matches);
        let free = matching.clone().filter(|device| device.state == gpool_model::DeviceState::Free);
        WhyNode {
            name: node.node.name.to_string(),
            connected: node.node.connected,
            n_matching: count(matching.count()),
            n_free: count(free.count()),
            devices,
        }
    };
    view.world.nodes_by_name().map(|(_, node)| of_node(node)).collect()
}

fn device(view: &View<'_>, node: &NodeRow, device_ix: usize, spec: &JobSpec) -> WhyDevice {
    let device = &node.node.devices[device_ix];
    let holder = node.devices[device_ix].holders.first().map(|task| task.job);
    let row = holder.and_then(|job| view.world.job(job));
    let user = row.map(|row| row.spec.owner.user.to_string());
    let stranger = || device.unmanaged.first().and_then(|process| process.user.clone());
    let is_here = spec.pool.as_ref().is_none_or(|pool| *pool == node.node.pool);
    let length = row.map(|row| Length::of(row, view.world.prediction(&row.spec), view.now));
    WhyDevice {
        index: device.index,
        model: gpool_model::pattern::short_model(&device.model),
        state: state_of(device, node.node.gives(&device.uuid), holder.is_some()),
        matches: is_here && !spec.gpus.is_none() && spec.gpus.rank_of(device).is_some(),
        job: holder.map(|job| job.to_string()),
        user: user.or_else(stranger),
        until: length.map(|length| Time(view.now.after(length.at(Pace::Late)))),
        until_by: length.map(|length| source_word(length.source).to_owned()),
    }
}

fn source_word(source: Source) -> &'static str {
    match source {
        Source::Limit => "limit",
        Source::LikeRuns { .. } => "predicted",
        Source::Elapsed => "elapsed",
        Source::Stopping => "stopping",
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
