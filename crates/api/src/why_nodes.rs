//! The devices of each node for a job that waits, with the jobs that hold them and until when.

use gpool_control::forecast::{Length, LengthSource, Pace};
use gpool_model::DeviceState;
use gpool_model::plan::Fit;
use gpool_sched::{Explainer, KeptBy};
use gpool_wire::gpu::state_of;
use gpool_wire::{Time, WhyDevice, WhyNode, WhyReserved};
use gpool_world::{JobRow, NodeRow};

use gpool_server::view::View;

/// Every node, in the order of names.
pub(crate) fn of(view: &View<'_>, explainer: &Explainer<'_>, waiting: &JobRow) -> Vec<WhyNode> {
    let of_node = |node: &NodeRow| {
        let all = 0..node.node.devices.len();
        let devices: Vec<WhyDevice> =
            all.map(|ix| device(view, explainer, (node, ix), waiting)).collect();
        let matching = devices.iter().filter(|device| device.matches);
        let is_free = |it: &&WhyDevice| it.state == DeviceState::Free && it.reserved.is_none();
        let free = matching.clone().filter(is_free);
        WhyNode {
            name: node.node.name.to_string(),
            connected: node.node.is_reachable(),
            n_matching: count(matching.count()),
            n_free: count(free.count()),
            devices,
        }
    };
    view.world.nodes_by_name().map(|(_, node)| of_node(node)).collect()
}

fn device(
    view: &View<'_>,
    explainer: &Explainer<'_>,
    (node, device_ix): (&NodeRow, usize),
    waiting: &JobRow,
) -> WhyDevice {
    let spec = &waiting.spec;
    let device = &node.node.devices[device_ix];
    let holder = node.devices[device_ix].holders.first().map(|task| task.job);
    let row = holder.and_then(|job| view.world.job(job));
    let user = row.map(|row| row.spec.owner.user.to_string());
    let stranger = || device.unmanaged.first().and_then(|process| process.user.clone());
    let lacking_nodes = waiting.job.course.lacking_nodes.clone();
    let is_here = Fit { lacking_nodes, ..Fit::of(spec) }.may_be_on(&node.node);
    let mut shapes = spec.shapes().map(|(gpus, _)| gpus).filter(|gpus| !gpus.is_none());
    let length = row.map(|row| Length::of(row, view.world.prediction(&row.spec), view.now));
    let kept_by = explainer.kept_by(waiting, &node.node, device).filter(|_| spec.has_gpus());
    WhyDevice {
        reserved: kept_by.map(reserved),
        index: device.index,
        model: gpool_model::pattern::short_model(&device.model),
        state: state_of(&node.node, device, &node.devices[device_ix].holders),
        matches: is_here && shapes.any(|gpus| gpus.rank_of(device).is_some()),
        job: holder.map(|job| job.to_string()),
        user: user.or_else(stranger),
        until: length.map(|length| Time(view.now.after(length.at(Pace::Late)))),
        until_by: length.map(|length| source_word(length.source).to_owned()),
    }
}

fn reserved(kept_by: KeptBy<'_>) -> WhyReserved {
    match kept_by {
        KeptBy::NotReserved => WhyReserved::default(),
        KeptBy::Reservation(by, window) => WhyReserved {
            by: Some(by.name.to_string()),
            maintenance: by.is_maintenance(),
            from: Some(Time(window.from)),
            until: window.until.map(Time),
        },
    }
}

fn source_word(source: LengthSource) -> &'static str {
    match source {
        LengthSource::Limit => "limit",
        LengthSource::LikeRuns { .. } => "predicted",
        LengthSource::Elapsed => "elapsed",
        LengthSource::Stopping => "stopping",
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
