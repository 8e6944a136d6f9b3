//! How often kinds of happenings are drawn in a situation: two that have to meet to show a fault
//! would otherwise meet too rarely.

use crate::claim::ShepherdOrder;
use crate::happening::Kind;
use crate::machine::Machine;
use crate::sim::Sim;

/// How often a kind is drawn now. During a launch, a move or a call for a loan, kills of its agent
/// and cancellations of its job are more frequent; a shepherd without an agent acts more rarely.
pub(crate) fn haste(sim: &Sim, kind: Kind, weight: u64) -> u64 {
    let any = |test: &dyn Fn(&Machine) -> bool| sim.machines.iter().any(test);
    let is_busy = |it: &Machine| {
        let is_launching = can_check(it) || !it.forked.is_empty();
        is_launching || it.is_calling() || !it.told().is_empty() || is_away(it)
    };
    match kind {
        Kind::Claim if orphan(sim).is_some() => weight.div_ceil(8),
        Kind::Cancel | Kind::Snatch if orphan(sim).is_some() => weight * 20,
        Kind::KillAgent | Kind::DoomAgent if any(&is_busy) => weight * 6,
        // Borrowers are paused after a while.
        Kind::Pass if any(&|it| it.pauses && it.is_calling()) => weight * 8,
        Kind::Step if any(&|it| it.pauses) => weight * 4,
        // A task is paused twice.
        Kind::Pause | Kind::Idle if any(&is_away) => weight * 20,
        // A task is about to resume on other devices.
        Kind::FailRestore if any(&is_about_to_move) => weight * 20,
        // A share grows where guests are.
        Kind::Resize if any(&|it| it.can_move && has_guests(it)) => weight * 8,
        _ => weight,
    }
}

/// Whether a task is paused for its loans.
fn is_away(machine: &Machine) -> bool {
    machine.claims.values().any(|claim| claim.is_alive() && claim.by_node)
}

fn is_about_to_move(machine: &Machine) -> bool {
    machine.claims.values().any(|claim| {
        let is_elsewhere = |order: &ShepherdOrder| {
            matches!(order, ShepherdOrder::Resume(_, to, _) if *to != claim.home)
        };
        claim.paused_at.is_some() && claim.orders.iter().any(is_elsewhere)
    })
}

/// A job with guests on the device that it booked, by its place among those that can be resized.
pub(crate) fn host(sim: &Sim) -> Option<u64> {
    let is_host = |job: &gpool_model::JobId| {
        sim.machines.iter().filter(|it| it.can_move).any(|machine| {
            let view = machine.view();
            let has_guests = |device: &gpool_model::DeviceUuid| {
                view.iter().any(|it| it.uuid == *device && !it.guests.is_empty())
            };
            let own = machine.claims.iter().filter(|(task, _)| task.job == *job);
            own.flat_map(|(_, claim)| claim.seats.devices()).any(|device| has_guests(&device))
        })
    };
    let at = sim.resizable().iter().position(is_host)?;
    u64::try_from(at).ok()
}

fn has_guests(machine: &Machine) -> bool {
    machine.view().iter().any(|device| !device.guests.is_empty())
}

/// The job of a shepherd that has lost its agent before it claimed its task.
pub(crate) fn orphan(sim: &Sim) -> Option<gpool_model::JobId> {
    let of_machine = |machine: &Machine| {
        let own = machine.agent.as_ref().map(|agent| agent.number);
        let forked = machine.forked.iter().find(|forked| Some(forked.by) != own);
        forked.map(|forked| forked.order.task().job)
    };
    sim.machines.iter().find_map(of_machine)
}

/// Whether the devices of a task are being checked.
pub(crate) fn can_check(machine: &Machine) -> bool {
    machine.agent.as_ref().is_some_and(|agent| !agent.asked.is_empty())
}
