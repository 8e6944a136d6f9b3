//! Reasons in one line: the stable code, then its numbers.

use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::{Bytes, Lack, MilliCpu, NodeLack, Reason, ResourceKind};

/// A reason in the form of scenarios.
#[must_use]
pub fn reason_text(reason: &Reason) -> String {
    if let Reason::OfPart { part, reason } = reason {
        return format!("of {part} {}", reason_text(reason));
    }
    let rest = of_nodes(reason).or_else(|| of_others(reason)).unwrap_or_default();
    format!("{} {rest}", reason.code()).trim_end().to_owned()
}

/// The numbers of reasons about nodes and devices.
fn of_nodes(reason: &Reason) -> Option<String> {
    Some(match reason {
        Reason::GpusNotFree { need, free, .. } => format!("need {need} free {free}"),
        Reason::GpusNotFreeTogether { need, free, node, .. } => {
            format!("need {need} free {free} on {node}")
        }
        Reason::NodesNotFree { need, free, able, within }
        | Reason::TasksNotFree { need, free, able, within } => {
            let within = within.as_ref().map(|value| format!(" within {value}"));
            format!("need {need} free {free} of {able}{}", within.unwrap_or_default())
        }
        Reason::GpuShareNotFree { need, share, free, node, largest } => {
            format!("need {share} of {need} free {free} on {node} largest {largest}")
        }
        Reason::ShareNotAllowed { need, free, node, with, .. } => {
            format!("need {need} free {free} on {node} with {with}")
        }
        Reason::GpuModelMissing { asked, most } => format!("asked {asked} most {most}"),
        Reason::GpuMemoryTooSmall { need, largest } => format!("need {need} largest {largest}"),
        Reason::CpuOrMemShort { kind, need, free, node } => {
            let (need, free) = (amount(kind, *need), amount(kind, *free));
            format!("{kind} need {need} free {free} on {node}")
        }
        Reason::SlotsKeptForGpus { node, need, free, most, slots } => {
            format!("{need} needed {free} free of {most} of {slots} on {node}")
        }
        Reason::NodeLacks { lack: NodeLack { node, lack }, .. } => match lack {
            Lack::Path(what)
            | Lack::Stored(what)
            | Lack::Secret(what)
            | Lack::Account(what)
            | Lack::Engine(what)
            | Lack::Image(what)
            | Lack::Space(what)
            | Lack::Pull(what) => format!("{node}: {what}"),
        },
        Reason::NoEngine => String::new(),
        Reason::ImagePull { node, image, .. } => format!("{image} on {node}"),
        Reason::UnmanagedProcess { node, index, pid, user, .. } => {
            let user = user.as_deref().unwrap_or("unknown");
            format!("{node}[{index}] pid {pid} of {user}")
        }
        Reason::GpuUnhealthy { node, index, why, .. } => format!("{node}[{index}] {why}"),
        Reason::GpuNotAllowed { node, index, .. } => format!("{node}[{index}]"),
        Reason::NodeDrained { node, index: Some(index), .. } => format!("{node}[{index}]"),
        Reason::NodeDrained { node, index: None, .. } => node.to_string(),
        Reason::NodeOccupied { node, exclusive } => {
            format!("{node}{}", if *exclusive { " wanted alone" } else { "" })
        }
        Reason::OnlyInPool { pool, n_nodes } => format!("{pool} nodes {n_nodes}"),
        Reason::OnlyOnNodes { nodes, n_nodes, n_left_out, .. } => {
            format!("{nodes} nodes {n_nodes} of {}", n_nodes.saturating_add(*n_left_out))
        }
        Reason::AgentUnreachable { node, .. } => node.to_string(),
        Reason::PausedOnMissing { node, indexes, why } => {
            let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            format!("{node}[{}] {why}", indexes.join(","))
        }
        Reason::PausedOn { node, indexes, free } => {
            let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            format!("{node}[{}] free {free}", indexes.join(","))
        }
        _ => return None,
    })
}

/// The numbers of reasons about users, projects and other jobs.
fn of_others(reason: &Reason) -> Option<String> {
    Some(match reason {
        Reason::AheadInOrder { job, n_ahead } => format!("{n_ahead} ahead, last job {job}"),
        Reason::WouldDelay { job, .. } => format!("job {job}"),
        Reason::GroupParallelLimit { running, most } => format!("{running} of {most} run"),
        Reason::WaitsForJob { job, .. } => format!("job {job}"),
        Reason::WaitsForOneOf { job, n_jobs, .. } => format!("job {job} of {n_jobs}"),
        Reason::DependencyFailed { job, state } => format!("job {job} {state}"),
        Reason::BeginTime { at } => format!("at {}", at.get()),
        Reason::BackoffAfterFailure { until, attempt } => {
            format!("until {} #{attempt}", until.get())
        }
        Reason::QuotaUser { what, used, most } => {
            let what = match what {
                UserCap::RunningJobs => "jobs",
                UserCap::Gpus => "gpus",
            };
            format!("{what} used {used} most {most}")
        }
        Reason::QuotaUserInProject { user, project, what, used, most } => {
            let what = match what {
                UserCap::RunningJobs => "jobs",
                UserCap::Gpus => "gpus",
            };
            format!("{user} in {project} {what} used {used} most {most}")
        }
        Reason::NotReserved { reserved } => format!("reserved {reserved}"),
        Reason::QuotaProject { project, kind, bound, held, asked, most } => {
            let bound = match bound {
                Bound::Limit => "limit",
                Bound::Guaranteed => "guaranteed",
                Bound::GuaranteedOnly => "guaranteed-only",
            };
            let [held, asked, most] = [held, asked, most].map(|it| amount(kind, *it));
            format!("{project} {bound} {most} {kind} held {held} asked {asked}")
        }
        Reason::PreemptionGrace { job, n_jobs, .. } => format!("job {job} of {n_jobs}"),
        Reason::GpuTimeHad { job, theirs, own, until } => {
            let until = until.map(|until| format!(" until {}", until.get())).unwrap_or_default();
            format!("job {job} {theirs} h own {own} h{until}")
        }
        Reason::UserSlots { used, most, slots } => format!("used {used} most {most} of {slots}"),
        Reason::ReservedForOther { reservation, node, n_devices, .. } => {
            format!("{reservation} keeps {n_devices} on {node}")
        }
        Reason::MaintenanceSoon { reservation, node, .. } => format!("{reservation} on {node}"),
        _ => return None,
    })
}

fn amount(kind: &ResourceKind, amount: u64) -> String {
    match kind {
        ResourceKind::Cpu => MilliCpu::new(amount).to_string(),
        ResourceKind::Memory | ResourceKind::GpuMemory | ResourceKind::PauseMemory => {
            Bytes::new(amount).to_string()
        }
        ResourceKind::Gpu | ResourceKind::GpuModel(_) | ResourceKind::GpuPool(_) => {
            MilliCpu::new(amount).to_string()
        }
        ResourceKind::MigProfile(_)
        | ResourceKind::Tasks
        | ResourceKind::PlainTasks
        | ResourceKind::UserTasks
        | ResourceKind::Node => amount.to_string(),
    }
}
