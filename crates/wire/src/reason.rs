//! Reasons as the API shows them: a stable code, its numbers, and words for people.

use std::collections::BTreeMap;

use gpool_model::DependencyKind;
use gpool_model::policy::UserCap;
use gpool_model::reason::Bound;
use gpool_model::resource::ResourceKind;
use gpool_model::unit::{GpuTime, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::chosen::only_words;
use crate::hold;
use crate::kind::{amount_words, in_api_unit, kind_word};
use crate::request_words as words;
pub use crate::request_words::request_words;
pub(crate) use crate::request_words::{devices, gpus, models_words, share_words};
use crate::time::Time;

/// One thing that keeps a job from starting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "code": "gpus_not_free_together", "need": 4, "free": 2, "node": "lab1", "blocking": true,
    "text": "4 GPUs needed together; lab1 has 2 free"
}))]
pub struct Reason {
    /// A stable word; new ones may be added.
    pub code: String,
    /// Whether it alone keeps the job from starting.
    pub blocking: bool,
    /// The same in words; may change.
    pub text: String,
    /// Numbers and names, by the code: `need`, `free`, `node`, `job` ….
    #[serde(flatten)]
    pub facts: BTreeMap<String, Value>,
}

impl Reason {
    /// A reason of the model with its words.
    #[must_use]
    pub fn new(reason: &gpool_model::Reason, blocking: bool) -> Self {
        Self {
            code: reason.code().to_owned(),
            blocking,
            text: reason_text(reason),
            facts: facts(reason),
        }
    }

    /// The same for somebody who may not see the files that belong to a job's owner.
    #[must_use]
    pub fn for_stranger(mut self) -> Self {
        if self.facts.remove("path").is_some() {
            "held: something that it needs is not there".clone_into(&mut self.text);
        }
        self
    }
}

fn facts(reason: &gpool_model::Reason) -> BTreeMap<String, Value> {
    use gpool_model::Reason as R;
    let device = |node: &dyn ToString, index: &u32, uuid: &dyn ToString| {
        vec![
            ("node", json!(node.to_string())),
            ("gpu", json!(index)),
            ("uuid", json!(uuid.to_string())),
        ]
    };
    let facts = match reason {
        R::GpusNotFree { need, free, .. } => vec![("need", json!(need)), ("free", json!(free))],
        R::GpusNotFreeTogether { need, free, node, .. } => {
            vec![("need", json!(need)), ("free", json!(free)), ("node", json!(node))]
        }
        R::NodesNotFree { need, free, able } | R::TasksNotFree { need, free, able } => {
            vec![("need", json!(need)), ("free", json!(free)), ("able", json!(able))]
        }
        R::GpuShareNotFree { need, share, free, node, largest } => vec![
            ("need", json!(need)),
            ("share", json!(share.to_string())),
            ("free", json!(free)),
            ("node", json!(node)),
            ("largest", json!(largest)),
        ],
        R::GpuModelMissing { asked, most } => {
            vec![("asked", json!(asked.to_string())), ("most", json!(most))]
        }
        R::GpuMemoryTooSmall { need, largest } => {
            vec![("need", json!(need)), ("largest", json!(largest))]
        }
        R::CpuOrMemShort { kind, need, free, node } => vec![
            ("kind", json!(kind_word(kind))),
            ("need", in_api_unit(kind, *need)),
            ("free", in_api_unit(kind, *free)),
            ("node", json!(node)),
        ],
        R::SlotsKeptForGpus { node, need, free, most, slots } => vec![
            ("node", json!(node)),
            ("need", json!(need)),
            ("free", json!(free)),
            ("most", json!(most)),
            ("slots", json!(slots)),
        ],
        R::UserSlots { used, most, slots } => {
            vec![("used", json!(used)), ("most", json!(most)), ("slots", json!(slots))]
        }
        R::AheadInOrder { job, n_ahead } => vec![("job", json!(job)), ("n_ahead", json!(n_ahead))],
        R::WouldDelay { job, planned_at } => {
            vec![("job", json!(job)), ("planned_at", json!(Time(*planned_at)))]
        }
        R::GroupParallelLimit { running, most } => {
            vec![("running", json!(running)), ("most", json!(most))]
        }
        R::WaitsForJob { job, kind } => vec![("job", json!(job)), ("kind", json!(kind))],
        R::WaitsForOneOf { job, kind, n_jobs } => {
            vec![("job", json!(job)), ("kind", json!(kind)), ("n_jobs", json!(n_jobs))]
        }
        R::DependencyFailed { job, state } => vec![("job", json!(job)), ("state", json!(state))],
        R::BeginTime { at } => vec![("at", json!(Time(*at)))],
        R::BackoffAfterFailure { until, attempt } => {
            vec![("until", json!(Time(*until))), ("attempt", json!(attempt))]
        }
        R::QuotaUser { what, used, most } => vec![
            ("what", json!(what)),
            ("used", cap_amount(*what, *used)),
            ("most", cap_amount(*what, *most)),
        ],
        R::QuotaUserInProject { user, project, what, used, most } => vec![
            ("user", json!(user)),
            ("project", json!(project)),
            ("what", json!(what)),
            ("used", cap_amount(*what, *used)),
            ("most", cap_amount(*what, *most)),
        ],
        R::NotReserved { reserved } => vec![("reserved", json!(reserved))],
        R::QuotaProject { project, kind, bound, held, asked, most } => vec![
            ("project", json!(project)),
            ("kind", json!(kind_word(kind))),
            ("bound", json!(bound)),
            ("held", in_api_unit(kind, *held)),
            ("asked", in_api_unit(kind, *asked)),
            ("most", in_api_unit(kind, *most)),
        ],
        R::PreemptionGrace { of, devices, job, n_jobs, until } => {
            let device = |(node, index): &(_, u32)| json!({"node": node, "gpu": index});
            vec![
                ("job", json!(job)),
                ("n_jobs", json!(n_jobs)),
                ("user", json!(of.as_ref().map(|(user, _)| user))),
                ("project", json!(of.as_ref().map(|(_, project)| project))),
                ("gpus", json!(devices.iter().map(device).collect::<Vec<Value>>())),
                ("until", json!(until.map(Time))),
            ]
        }
        R::GpuTimeHad { job, theirs, own, until } => vec![
            ("job", json!(job)),
            ("gpu_hours_of_job", gpu_hours(*theirs)),
            ("gpu_hours", gpu_hours(*own)),
            ("until", json!(until.map(Time))),
        ],
        R::HeldByUser { since } | R::SetAside { since } => vec![("since", json!(Time(*since)))],
        R::HeldByAdmin { since, hold } => vec![
            ("since", json!(Time(*since))),
            ("by", json!(hold.as_ref().map(|hold| &hold.by))),
            ("admin_of", json!(hold.as_ref().and_then(|hold| hold.project.as_ref()))),
        ],
        R::PathOrImageMissing { since, node, path } => {
            vec![("since", json!(Time(*since))), ("node", json!(node)), ("path", json!(path))]
        }
        R::UnmanagedProcess { node, index, device: uuid, pid, user, name } => {
            let mut facts = device(node, index, uuid);
            facts.extend([("pid", json!(pid)), ("user", json!(user)), ("name", json!(name))]);
            facts
        }
        R::GpuUnhealthy { node, index, device: uuid, why } => {
            let mut facts = device(node, index, uuid);
            facts.push(("why", json!(why)));
            facts
        }
        R::GpuNotAllowed { node, index, device: uuid } => device(node, index, uuid),
        R::ReservedForOther { reservation, node, n_devices, from, until } => vec![
            ("reservation", json!(reservation)),
            ("node", json!(node)),
            ("n_devices", json!(n_devices)),
            ("from", json!(Time(*from))),
            ("until", json!(until.map(Time))),
        ],
        R::MaintenanceSoon { reservation, node, from, until } => vec![
            ("reservation", json!(reservation)),
            ("node", json!(node)),
            ("from", json!(Time(*from))),
            ("until", json!(until.map(Time))),
        ],
        R::NodeDrained { node, index, by, reason } => vec![
            ("node", json!(node)),
            ("gpu", json!(index)),
            ("by", json!(by.map(Time))),
            ("reason", json!(reason)),
        ],
        R::NodeOccupied { node, exclusive } => {
            vec![("node", json!(node)), ("exclusive", json!(exclusive))]
        }
        R::OnlyInPool { pool, n_nodes } => {
            vec![("pool", json!(pool)), ("n_nodes", json!(n_nodes))]
        }
        R::OnlyOnNodes { nodes, n_nodes, n_left_out, left_out } => vec![
            ("node", json!(nodes.include)),
            ("not_node", json!(nodes.exclude)),
            ("where", json!(nodes.rules)),
            ("n_nodes", json!(n_nodes)),
            ("n_left_out", json!(n_left_out)),
            ("left_out", json!(left_out)),
        ],
        R::AgentUnreachable { node } => vec![("node", json!(node))],
        R::PausedOn { node, indexes, free } => {
            vec![("node", json!(node)), ("gpus", json!(indexes)), ("free", json!(free))]
        }
    };
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

const ONLY_RESERVED: &str = "only reserved GPUs are given out";
const ASK_TO_RESERVE: &str = "an admin can reserve more: gpool reserve create";

/// A reason in words: one line, numbers first.
#[must_use]
pub fn reason_text(reason: &gpool_model::Reason) -> String {
    use gpool_model::Reason as R;
    match reason {
        R::GpusNotFree { need, free, of_instances } => {
            format!("{need} {} needed, {free} free", devices(*need, *of_instances))
        }
        R::GpusNotFreeTogether { need, free, node, of_instances } => {
            let what = devices(*need, *of_instances);
            format!("{need} {what} needed together; {node} has {free} free")
        }
        R::NodesNotFree { need, able, .. } if able < need => {
            format!("{need} nodes needed at once, and {able} could ever hold a part of it")
        }
        R::NodesNotFree { need, free, able } => {
            format!("{need} nodes needed at once; {free} of {able} that could hold it have room")
        }
        R::TasksNotFree { need, able, .. } if able < need => {
            format!("{need} tasks at once, and there could ever be room for {able}")
        }
        R::TasksNotFree { need, free, .. } => {
            format!("{need} tasks needed at once; there is room for {free}")
        }
        R::GpuShareNotFree { need: 1, share, largest, .. } => {
            format!("{} needed; at most {largest} of one are free", share_words(*share))
        }
        R::GpuShareNotFree { need, share, free, node, .. } => {
            let share = share_words(*share);
            format!("{share} needed on each of {need}; {node} has {free} with that much free")
        }
        R::GpuModelMissing { asked, most } => match most {
            0 => format!("no node has {}", request_words(asked)),
            _ => format!("{} needed on one node; the most on one is {most}", request_words(asked)),
        },
        R::GpuMemoryTooSmall { need, largest } => {
            format!("GPUs of at least {need} needed; the largest has {largest}")
        }
        R::CpuOrMemShort { kind, need, free, node } => format!(
            "{} needed; {node} has {} free",
            amount_words(kind, *need),
            amount_words(kind, *free)
        ),
        R::SlotsKeptForGpus { node, free, most, slots, .. } => format!(
            "jobs without GPUs have {} of {slots} task slots of {node}, and {} are kept for jobs \
             with GPUs",
            most.saturating_sub(*free),
            slots.saturating_sub(*most)
        ),
        R::UserSlots { used, most, slots } => {
            format!("its user has {used} of {slots} task slots, and one user may have {most}")
        }
        R::AheadInOrder { job, n_ahead } => match n_ahead {
            1 => format!("job {job} goes first"),
            _ => format!("{n_ahead} jobs go first, job {job} the last of them"),
        },
        R::WouldDelay { job, planned_at } => format!(
            "it would not end before {}, when job {job} is planned to start there",
            Time(*planned_at)
        ),
        R::GroupParallelLimit { running, most } => {
            format!("{running} of its elements run, and {most} may at once")
        }
        R::WaitsForJob { job, kind } => {
            format!("waits for job {job} to {}", ending(*kind))
        }
        R::WaitsForOneOf { job, kind, n_jobs: 1 } => {
            format!("waits for job {job} to {}, the last that may", ending(*kind))
        }
        R::WaitsForOneOf { job, kind, n_jobs } => {
            format!("waits for one of {n_jobs} jobs, such as job {job} to {}", ending(*kind))
        }
        R::DependencyFailed { job, state } => format!(
            "job {job}, which it waited for, is {state}; edit or cancel it: it can't start so"
        ),
        R::BeginTime { at } => format!("starts at {} at the earliest", Time(*at).short()),
        R::BackoffAfterFailure { until, attempt } => {
            format!("attempt {attempt} comes after a pause, until {}", Time(*until).short())
        }
        R::QuotaUser { what: UserCap::RunningJobs, used, most } => {
            format!("its user has {used} jobs running, and {most} are the most")
        }
        R::QuotaUser { what: UserCap::Gpus, used, most } => format!(
            "its user holds {} GPUs, and {} are the most",
            crate::node::cores(*used),
            crate::node::cores(*most)
        ),
        R::QuotaUserInProject { user, project, what, used, most } => format!(
            "{user} has {} in project {project}, and one user may have at most {}",
            cap_words(*what, *used),
            cap_words(*what, *most)
        ),
        R::NotReserved { reserved: 0 } => {
            format!("{ONLY_RESERVED}, and no such GPU is reserved for it; {ASK_TO_RESERVE}")
        }
        R::NotReserved { reserved } => format!(
            "{ONLY_RESERVED}, and too few of the {reserved} {} reserved for it are free; \
             {ASK_TO_RESERVE}",
            gpus(u32::try_from(*reserved).unwrap_or(u32::MAX))
        ),
        R::QuotaProject { project, kind, bound, held, asked, most } => {
            let [held, asked, most] = [held, asked, most].map(|it| amount_words(kind, *it));
            match bound {
                Bound::Limit => {
                    format!(
                        "project {project} holds {held} of at most {most}, and this asks for \
                         {asked} more"
                    )
                }
                Bound::GuaranteedOnly => format!(
                    "project {project} holds {held} of the {most} that it is guaranteed, nothing \
                     is lent here, and this asks for {asked} more"
                ),
                Bound::Guaranteed => {
                    let are = if asked.starts_with("1 ") { "is" } else { "are" };
                    format!(
                        "it can't be taken back, so it needs {asked} that {are} guaranteed; \
                         project {project} has used {held} of {most}; with --preemptible it may \
                         borrow"
                    )
                }
            }
        }
        R::PreemptionGrace { of, devices, job, n_jobs, until } => {
            let leaves = words::leaves((*job, *n_jobs), of.as_ref(), devices);
            let until = until.map(|until| format!(", by {} at the latest", Time(until).short()));
            format!("its place is decided; {leaves} first{}", until.unwrap_or_default())
        }
        R::GpuTimeHad { job, theirs, own, until } => {
            let had = format!("job {job} has had {theirs} GPU-hours, this one {own}");
            match until {
                Some(until) => format!("{had}: it makes room, not before {}", Time(*until).short()),
                None if theirs > own => format!("{had}: it makes room"),
                None => format!("{had}: who has had less goes first"),
            }
        }
        R::HeldByUser { .. } => "held by its user until released".to_owned(),
        R::HeldByAdmin { hold, .. } => hold::reason(hold.as_ref()),
        R::SetAside { .. } => format!("{}; released, it is tried again", hold::SET_ASIDE),
        R::PathOrImageMissing { node, path, .. } => {
            format!("held: {path} is not on {node}; released, it looks again")
        }
        R::UnmanagedProcess { node, index, pid, user, name, .. } => format!(
            "GPU {index} of {node} is used outside gpool: pid {pid}{}{}",
            name.as_ref().map(|name| format!(" {name}")).unwrap_or_default(),
            user.as_ref().map(|user| format!(" (user {user})")).unwrap_or_default(),
        ),
        R::GpuUnhealthy { node, index, why, .. } => {
            format!("GPU {index} of {node} can't be used: {why}")
        }
        R::GpuNotAllowed { node, index, .. } => {
            format!("GPU {index} of {node} is kept from new work by an admin")
        }
        R::ReservedForOther { reservation, node, n_devices, from, until } => {
            let what = match n_devices {
                0 => node.to_string(),
                n => format!("{n} {} of {node}", gpus(*n)),
            };
            format!("{what} reserved for others by {reservation}, {}", span_words(*from, *until))
        }
        R::MaintenanceSoon { reservation, node, from, until } => {
            format!("maintenance {reservation} of {node}, {}", span_words(*from, *until))
        }
        R::NodeDrained { node, index, by, reason } => {
            let what = index.map_or_else(|| node.to_string(), |gpu| format!("GPU {gpu} of {node}"));
            let by = by.map(|by| format!(" by {}", Time(by).short())).unwrap_or_default();
            format!("{what} is drained{by}: {reason}")
        }
        R::NodeOccupied { node, exclusive: true } => {
            format!("it wants a node without other jobs (--exclusive), and {node} runs some")
        }
        R::NodeOccupied { node, exclusive: false } => {
            format!("{node} runs a job that has the node alone (--exclusive)")
        }
        R::OnlyInPool { pool, n_nodes: 0 } => format!("no node is in pool {pool}"),
        R::OnlyInPool { pool, n_nodes } => {
            let nodes = if *n_nodes == 1 { "node" } else { "nodes" };
            format!("only nodes of pool {pool}: {n_nodes} {nodes}")
        }
        R::OnlyOnNodes { nodes, n_nodes, n_left_out, left_out } => {
            only_words(nodes, *n_nodes, *n_left_out, left_out)
        }
        R::AgentUnreachable { node } => format!("the agent of {node} does not answer"),
        R::PausedOn { node, indexes, free } => {
            let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
            let indexes = indexes.join(", ");
            format!("it is paused on {node} (GPU {indexes}) and goes on there; {free} of them free")
        }
    }
}

/// `Fri 20 Nov 18:00 UTC to Fri 20 Nov 22:00 UTC`.
pub(crate) fn span_words(from: Timestamp, until: Option<Timestamp>) -> String {
    let until =
        until.map_or_else(|| "until released".to_owned(), |it| format!("to {}", Time(it).short()));
    format!("{} {until}", Time(from).short())
}

fn ending(kind: DependencyKind) -> &'static str {
    match kind {
        DependencyKind::Ok => "succeed",
        DependencyKind::Each => "succeed, element by element",
        DependencyKind::Fail => "fail",
        DependencyKind::End => "end",
        DependencyKind::Start => "start",
    }
}

/// Jobs as a whole number, devices with decimals.
/// So much of what a user may have.
pub(crate) fn cap_words(what: UserCap, amount: u64) -> String {
    match (what, amount) {
        (UserCap::RunningJobs, 1) => "1 job running".to_owned(),
        (UserCap::RunningJobs, n) => format!("{n} jobs running"),
        (UserCap::Gpus, amount) => amount_words(&ResourceKind::Gpu, amount),
    }
}

fn cap_amount(what: UserCap, amount: u64) -> Value {
    match what {
        UserCap::RunningJobs => json!(amount),
        UserCap::Gpus => json!(crate::node::cores(amount)),
    }
}

/// GPU-time as the API writes it: hours of one device, to the thousandth.
fn gpu_hours(time: GpuTime) -> Value {
    json!(crate::node::cores(time.get() / (GpuTime::HOUR.get() / 1000)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_as_much_in_a_project_is_named_with_the_cap() {
        let in_red = |what, used, most| gpool_model::Reason::QuotaUserInProject {
            user: "ana".into(),
            project: gpool_model::ProjectName::new("red"),
            what,
            used,
            most,
        };
        assert_eq!(
            reason_text(&in_red(UserCap::RunningJobs, 1, 2)),
            "ana has 1 job running in project red, and one user may have at most 2 jobs running"
        );
        assert_eq!(
            reason_text(&in_red(UserCap::Gpus, 500, 1000)),
            "ana has 0.5 GPUs in project red, and one user may have at most 1 GPU"
        );
    }
}
