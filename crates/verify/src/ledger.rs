//! Checks the counters of free capacity of each node and device, and the total of GPUs.

use gpool_model::{Device, ResourceKind, Resources};
use gpool_world::{Free, NodeRow, World};

use crate::tally::{
    Holding, NodeTally, Tenancy, capacity, has_all, is_allowed, milli_of, unusable,
};
use crate::violation::Violation;

/// The world's totals count each usable GPU, and each one for jobs, by its size.
pub(crate) fn check_capacity(world: &World, found: &mut Vec<Violation>) {
    let open = world.nodes().iter().map(|row| &row.node).filter(|node| node.takes_work());
    let usable = open.flat_map(|node| {
        let devices = node.devices.iter();
        devices.filter(|device| unusable(node, device).is_none())
    });
    let expected: u64 = usable.map(milli_of).sum();
    let all = world
        .nodes()
        .iter()
        .flat_map(|row| row.node.devices.iter().zip(std::iter::repeat(&row.node)));
    let installed = all.filter(|(it, node)| {
        is_allowed(node, it) && !it.mig.as_ref().is_some_and(|mig| mig.enabled)
    });
    let installed: u64 = installed.map(|(it, _)| milli_of(it)).sum();
    for (index, counted, expected) in
        [("capacity", world.capacity(), expected), ("installed", world.installed(), installed)]
    {
        let counted = counted.get(&ResourceKind::Gpu);
        if counted != expected {
            let about = format!("{counted} thousandths of GPUs, counted {expected}");
            found.push(Violation::WrongIndexEntry { index, about });
        }
    }
}

pub(crate) fn check_ledger(row: &NodeRow, counted: &NodeTally<'_>, found: &mut Vec<Violation>) {
    let node = &row.node.name;
    let mut wrong = |what: String| {
        found.push(Violation::WrongLedger { node: node.clone(), what });
    };
    for (kind, free) in [
        (ResourceKind::Cpu, row.cpu),
        (ResourceKind::Memory, row.memory),
        (ResourceKind::Tasks, row.tasks),
        (ResourceKind::PlainTasks, row.plain),
    ] {
        let capacity = capacity(&row.node, &kind);
        let expected = Free {
            now: difference(capacity, counted.booked.get(&kind)),
            later: difference(capacity, counted.booked_later.get(&kind)),
        };
        if free != expected {
            wrong(kind.to_string());
        }
    }
    let of_node = |presence: &Tenancy| match presence.is_alone {
        true => Resources::WHOLE_NODE,
        false => 1,
    };
    let sum = |all: &mut dyn Iterator<Item = &Tenancy>| all.map(of_node).sum::<u64>();
    let expected = Free {
        now: difference(Resources::WHOLE_NODE, sum(&mut counted.running.values())),
        later: difference(
            Resources::WHOLE_NODE,
            sum(&mut counted.running.values().filter(|it| !it.is_releasing)),
        ),
    };
    if row.whole != expected {
        wrong("the node as a whole".to_owned());
    }
    if row.here != counted.tasks {
        wrong("the tasks on the node".to_owned());
    }
    let is_whole = |device: &&Device| !counted.holders.contains_key(&device.uuid);
    if row.n_whole != row.node.devices.iter().filter(is_whole).count() {
        wrong("the number of whole devices".to_owned());
    }
    let is_shared = |device: &&Device| {
        let holders = counted.holders.get(&device.uuid);
        holders.is_some_and(|held| held.iter().all(|holding| !has_all(holding.part)))
    };
    if row.n_shared != row.node.devices.iter().filter(is_shared).count() {
        wrong("the number of shared devices".to_owned());
    }
    if row.devices.len() != row.node.devices.len() {
        wrong("the number of devices".to_owned());
        return;
    }
    for (device, ledger) in row.node.devices.iter().zip(&row.devices) {
        let holders = counted.holders.get(&device.uuid).map_or(&[][..], Vec::as_slice);
        let charge = |holding: &Holding| holding.part.charge().get();
        let memory = |holding: &Holding| holding.part.memory_of(device.memory).get();
        let free = free_of(milli_of(device), holders, &charge);
        let free_memory = free_of(device.memory.get(), holders, &memory);
        let mut tasks: Vec<_> = holders.iter().map(|holding| holding.task).collect();
        tasks.sort_unstable();
        if ledger.free != free || ledger.memory != free_memory || ledger.holders != tasks {
            wrong(format!("device {}", device.uuid));
        }
    }
}

/// Returns what holders leave free of an amount.
fn free_of(amount: u64, holders: &[Holding], part: &dyn Fn(&Holding) -> u64) -> Free {
    let sum = |holdings: &mut dyn Iterator<Item = &Holding>| holdings.map(part).sum::<u64>();
    let kept = sum(&mut holders.iter().filter(|holding| !holding.is_releasing));
    Free { now: difference(amount, sum(&mut holders.iter())), later: difference(amount, kept) }
}

fn difference(capacity: u64, used: u64) -> i64 {
    let rest = i128::from(capacity) - i128::from(used);
    i64::try_from(rest).unwrap_or(if rest < 0 { i64::MIN } else { i64::MAX })
}
