//! Chooses the devices of a reservation by number. Leaves out unusable devices and devices that
//! other reservations have for a part of the same time, then prefers the devices with the least
//! work in the way, and among equal ones those where guests lose least.

use std::collections::{BTreeMap, BTreeSet};

use gpool_model::reservation::DeviceRequest;
use gpool_model::{Device, DeviceUuid, Node, NodeName, Reservation, Timestamp};
use gpool_world::{NodeRow, World};

/// The devices that a reservation has, by node.
pub(crate) type ReservedDevices = BTreeMap<NodeName, BTreeSet<DeviceUuid>>;

/// A device that could be reserved; the smaller, the better.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Whether work of others is likely to be on the device when the reservation begins.
    is_in_the_way: bool,
    /// The position in the request's list of models that the device matches.
    rank: usize,
    node: NodeName,
    /// The work that guests lose when they leave it.
    lost: u64,
    index: u32,
    device: DeviceUuid,
}

/// Chooses devices for a reservation that is otherwise complete; those in `retained` stay. `Err`
/// is the largest number of devices that could be reserved.
pub(crate) fn choose(
    world: &World,
    now: Timestamp,
    of: &Reservation,
    request: &DeviceRequest,
    retained: &ReservedDevices,
) -> Result<ReservedDevices, u32> {
    let need = usize::try_from(request.gpus.n_devices()).unwrap_or(usize::MAX);
    let n_kept: usize = retained.values().map(BTreeSet::len).sum();
    let free = candidates(world, now, of, request, retained);
    if request.spread {
        let n_more = need.saturating_sub(n_kept);
        if free.len() < n_more {
            return Err(count(n_kept + free.len()));
        }
        return Ok(with(retained, free.into_iter().take(n_more)));
    }
    // A task gets devices of one node that match one model of its request.
    let mut groups = BTreeMap::<(usize, NodeName), Vec<Candidate>>::new();
    for candidate in free {
        let group = groups.entry((candidate.rank, candidate.node.clone())).or_default();
        group.push(candidate);
    }
    if let Some((node, here)) = retained.first_key_value() {
        let row = world.node(node);
        let first = here.first().and_then(|uuid| device(row?, uuid));
        let rank = first.and_then(|device| request.gpus.rank_of(device));
        groups.retain(|(of, at), _| at == node && rank.is_none_or(|rank| rank == *of));
    }
    let n_more = need.saturating_sub(n_kept);
    let most = groups.values().map(Vec::len).max().unwrap_or(0);
    let in_the_way = |group: &[Candidate]| {
        group.iter().take(n_more).filter(|candidate| candidate.is_in_the_way).count()
    };
    let fitting = groups.into_iter().filter(|(_, group)| group.len() >= n_more);
    let best = fitting.min_by_key(|(key, group)| (in_the_way(group), key.clone()));
    match best {
        Some((_, group)) => Ok(with(retained, group.into_iter().take(n_more))),
        None if n_more == 0 => Ok(retained.clone()),
        None => Err(count(n_kept + most)),
    }
}

fn with(retained: &ReservedDevices, more: impl Iterator<Item = Candidate>) -> ReservedDevices {
    let mut chosen = retained.clone();
    for candidate in more {
        chosen.entry(candidate.node).or_default().insert(candidate.device);
    }
    chosen
}

/// Returns every device that could be reserved besides the devices in `retained`, best first.
fn candidates(
    world: &World,
    now: Timestamp,
    of: &Reservation,
    request: &DeviceRequest,
    retained: &ReservedDevices,
) -> Vec<Candidate> {
    let others: Vec<&Reservation> = (world.reservations().values())
        .filter(|it| it.name != of.name && !it.beneficiary.is_same(&of.beneficiary) && it.meets(of))
        .collect();
    let begins = of.occurrence(now).map_or(now, |window| window.from.max(now));
    let mut found = Vec::new();
    for (_, row) in world.nodes_by_name() {
        let name = &row.node.name;
        for (device_ix, device) in row.node.devices.iter().enumerate() {
            let Some(rank) = request.gpus.rank_of(device) else { continue };
            let is_kept = retained.get(name).is_some_and(|here| here.contains(&device.uuid));
            let is_taken = others.iter().any(|it| it.what.has_device(name, &device.uuid));
            if is_kept || is_taken || !is_useful(&row.node, device) {
                continue;
            }
            found.push(Candidate {
                is_in_the_way: is_in_the_way(world, of, row, device_ix, (now, begins)),
                rank,
                node: name.clone(),
                lost: world.lost_by_guests(row, device_ix),
                index: device.index,
                device: device.uuid.clone(),
            });
        }
    }
    found.sort();
    found
}

fn is_in_the_way(
    world: &World,
    of: &Reservation,
    row: &NodeRow,
    device_ix: usize,
    (now, begins): (Timestamp, Timestamp),
) -> bool {
    let jobs = row.devices[device_ix].holders.iter().filter_map(|task| world.job(task.job));
    let mut others = jobs.filter(|row| !of.beneficiary.is_for(&row.spec));
    others.any(|row| world.expected_end(row, now).is_none_or(|end| end.at > begins))
}

/// Whether a device can be given to jobs at all, held or not.
pub(crate) fn is_useful(node: &Node, device: &Device) -> bool {
    device.health == gpool_model::DeviceHealth::Healthy
        && node.allows(&device.uuid)
        && node.drain_of(&device.uuid).is_none()
        && !device.is_divided()
}

/// Returns the devices of a reservation that exist and can be given to jobs.
pub(crate) fn useful(world: &World, reservation: &Reservation) -> ReservedDevices {
    let mut useful = ReservedDevices::new();
    for (name, uuids) in &reservation.what.devices {
        let Some(row) = world.node(name) else { continue };
        let is_good =
            |uuid: &&DeviceUuid| device(row, uuid).is_some_and(|it| is_useful(&row.node, it));
        let good: BTreeSet<DeviceUuid> = uuids.iter().filter(is_good).cloned().collect();
        if !good.is_empty() {
            useful.insert(name.clone(), good);
        }
    }
    useful
}

fn device<'a>(row: &'a NodeRow, uuid: &DeviceUuid) -> Option<&'a Device> {
    row.node.devices.iter().find(|device| device.uuid == *uuid)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
