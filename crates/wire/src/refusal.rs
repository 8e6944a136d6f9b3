//! Words for refusals: what, why, and what to try.

use std::collections::BTreeSet;

use gpool_model::gpu::GpuRequest;
use gpool_model::policy::UserCap;
use gpool_model::refusal::LargestFit;
use gpool_model::resource::ResourceKind;
use gpool_model::unit::{Bytes, MilliCpu};
use gpool_model::{Gang, NodeFilter, NodeName, PoolName, Refusal};

use crate::hold;
use crate::json::nearest;
use crate::kind::amount_words;
use crate::problem::Problem;
use crate::project_words;
use crate::reason::{cap_words, devices, gpus, models_words, request_words};
use crate::touched;

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        let problem = Self::new(refusal.code(), what(refusal));
        match refusal {
            Refusal::NoGpus { why, .. } => problem
                .because(why.clone())
                .try_this("gpool doctor    (looks for the cause)")
                .try_this("gpool run -- …  (without --gpus, runs without a GPU)"),
            Refusal::ImpossibleGpus { asked, largest, nearest, models, n_kept_back } => {
                let problem = kept_back(problem, *n_kept_back);
                impossible_gpus(problem, asked, largest.as_ref(), nearest.as_ref(), models)
            }
            Refusal::ImpossibleResource { kind, largest, node, .. } => {
                impossible_resource(problem, kind, *largest, node.as_ref())
            }
            Refusal::TooFewNodes { asked, gang, able, largest } => {
                too_few_nodes(problem, asked, *gang, *able, *largest)
            }
            Refusal::NotPermitted { .. } => problem
                .because("only a job's owner and admins may: root, and the server's own user"),
            Refusal::HeldByAdmin { .. } => hold::because(problem, refusal),
            Refusal::CannotRunAs { only, .. } => problem
                .because(format!("it runs without root, and so only jobs of its user (uid {only})"))
                .try_this("gpool up   (a server of your own)"),
            Refusal::TooManyJobs { n_found, n_asked, .. } => problem
                .because(format!("you have {n_found}, and this would add {n_asked}"))
                .try_this(
                    "gpool queue   (cancel what is not needed, or wait until some have ended)",
                ),
            Refusal::TooMuchStored { n_kept, n_more, .. } => problem
                .because(format!("{n_kept} are stored for your jobs, and this would add {n_more}"))
                .because("what ended jobs had is kept for a while, for `gpool retry`")
                .try_this("--clean-env, or large data in files that jobs read"),
            Refusal::TooManyDependencies { n_found, n_asked, .. } => problem
                .because(match n_found {
                    None => format!("it names {n_asked}"),
                    Some(n_found) => {
                        format!("your jobs name {n_found}, and this would add {n_asked}")
                    }
                })
                .try_this("gpool help GP0522   (wait for an array, or in several steps)"),
            Refusal::UserCap { n_found, n_asked, .. } => problem
                .because(format!("you have {n_found}, and this would add {n_asked}"))
                .try_this("gpool queue   (cancel what is not needed, or wait until some start)"),
            Refusal::AboveUserCap { what: UserCap::RunningJobs, .. } => problem
                .because("nobody may run anything while that is 0")
                .try_this("--allow-unsatisfiable queues it until the cap is another"),
            Refusal::AboveUserCap { most, .. } => problem
                .try_this(format!("--gpus {}", crate::node::cores(*most)))
                .try_this("--allow-unsatisfiable queues it until the cap is another"),
            Refusal::ExtendTooLong { most, .. } => problem
                .because(format!("users may add {most} in all to a job that runs"))
                .try_this("ask an admin: gpool extend JOB --to 8h"),
            Refusal::DependencyCycle { .. } => {
                problem.try_this("gpool edit JOB --after ''   (waits for nothing)")
            }
            Refusal::NotKept { id } => problem
                .because("it is kept for a while after the end of a job, for `gpool retry`")
                .try_this(format!("gpool show {id}   (its command, to submit it again)")),
            Refusal::NotRequeueable { id } => problem
                .because("it was submitted with --no-requeue")
                .try_this(format!("gpool edit {id} --requeue, then again")),
            Refusal::PriorityTooHigh { most, .. } => {
                problem.because(format!("users may ask for at most {most}")).try_this("--prio 0")
            }
            Refusal::NoSuchJob { .. } => problem.try_this("gpool queue --state all"),
            Refusal::NoSuchNode { .. } => problem.try_this("gpool status"),
            Refusal::NoSuchDevice { n_devices, node, .. } => match n_devices {
                0 => problem.because(format!("{node} has no GPUs")),
                n => problem
                    .because(format!("{node} has {n}: 0 to {}", n - 1))
                    .try_this("gpool gpus"),
            },
            Refusal::NoSuchReservation { names, .. } => {
                let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                problem.because(format!("there are: {there}")).try_this("gpool reserve list")
            }
            Refusal::ReservationExists { name } => problem
                .try_this(format!("gpool reserve edit {name}   (changes it), or another --name")),
            Refusal::ReservationClash { other, whom, node, index, from, until } => problem
                .because(touched::clash(whom, node, *index, *from, *until))
                .try_this(format!("gpool reserve show {other}, then another time or other GPUs")),
            Refusal::NotEnoughToReserve { most, spread, .. } => problem
                .because(match spread {
                    true => format!("{most} can be reserved, on all nodes together"),
                    false => format!("the most that can be reserved on one node is {most}"),
                })
                .try_this(match spread {
                    true => "gpool reserve list   (what is kept for others)",
                    false => "--spread takes them from several nodes",
                }),
            Refusal::TooManyReservations { .. } => {
                problem.try_this("gpool reserve cancel NAME   (of those that are not needed)")
            }
            Refusal::AffectsOthers { affected, .. } => touched::affects(problem, affected),
            Refusal::NotDrained { .. } => problem.try_this("gpool nodes   (what is drained)"),
            Refusal::AlreadyEnded { id, .. } | Refusal::WrongState { id, .. } => {
                problem.try_this(format!("gpool show {id}"))
            }
            Refusal::VersionConflict { id, expected, found } => problem
                .because(format!("you saw version {expected}; it is at version {found} now"))
                .try_this(format!("gpool show {id}, then repeat the change if it is still wanted")),
            Refusal::DependencyNeverMet { job, .. } => {
                problem.try_this(format!("--after end:{job} accepts any end"))
            }
            // Which one it is, is said by whoever knows how they were written.
            Refusal::OfJob { refusal, .. } => Self::from(&**refusal),
            Refusal::NoSuchPool { name, pools } => no_such_pool(problem, name, pools),
            Refusal::InPool { pool, refusal } => {
                let why = format!("only nodes of pool {pool} count: --pool {pool} was asked for");
                Self::from(&**refusal).because(why)
            }
            Refusal::NoSuchNodes { nodes, unknown, there } => {
                no_such_nodes(problem, nodes, unknown, there)
            }
            Refusal::OnNodes { nodes, refusal } => {
                Self::from(&**refusal).because(format!("only some nodes count: {nodes}"))
            }
            Refusal::KeyReused { .. } => problem.try_this("a new key for a new request"),
            Refusal::StorageFull { why } => problem
                .because(why.clone())
                .try_this("free space in the state directory; `gpool status` names it"),
            Refusal::StateGone { why } => {
                problem.because(why.clone()).try_this("gpool doctor   (names the folder)")
            }
            Refusal::Internal { why } => problem.because(why.clone()),
            Refusal::ShuttingDown => problem.try_this("gpool up"),
            Refusal::Invalid { .. } | Refusal::TooLarge { .. } => problem,
            Refusal::NoSuchProject { .. }
            | Refusal::DepartmentTakesNoJobs { .. }
            | Refusal::NotMember { .. }
            | Refusal::AboveQuota { .. }
            | Refusal::TimeTooLong { .. }
            | Refusal::ProjectExists { .. }
            | Refusal::ProjectHasJobs { .. }
            | Refusal::ProjectHasChildren { .. }
            | Refusal::ProjectCycle { .. }
            | Refusal::ProjectNeeded { .. }
            | Refusal::TooManyProjects { .. }
            | Refusal::ProjectConflict { .. }
            | Refusal::AboveParent { .. } => project_words::because(problem, refusal),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::from(&refusal)
    }
}

/// What a job asks of several nodes.
fn gang_words(asked: &GpuRequest, gang: Gang) -> String {
    let each = match asked.is_none() {
        true => String::new(),
        false => format!(" with {}", request_words(asked)),
    };
    match gang.tasks_per_node {
        _ if gang.anywhere => format!("{} tasks{each}", gang.nodes),
        1 => format!("{} nodes{each}", gang.nodes),
        n => format!("{n} tasks on each of {} nodes, each task{each}", gang.nodes),
    }
}

fn too_few_nodes(
    problem: Problem,
    asked: &GpuRequest,
    gang: Gang,
    able: u32,
    largest: Option<u32>,
) -> Problem {
    if gang.anywhere {
        let could = if able == 1 { "task could" } else { "tasks could" };
        let problem = problem.because(format!("{able} {could} ever run at once"));
        let problem = match able {
            0 => problem,
            _ => problem.try_this(format!("--tasks {able} --gpus '{asked}'")),
        };
        return match largest.map(|largest| asked.of_count(largest)) {
            None => problem,
            Some(less) => problem.try_this(format!("--tasks {} --gpus '{less}'", gang.nodes)),
        };
    }
    let could = if able == 1 { "node could" } else { "nodes could" };
    let problem = problem.because(format!("{able} {could} hold its part of it"));
    let problem = match (able, gang.tasks_per_node) {
        (0, _) => problem,
        (_, 1) => problem.try_this(format!("--nodes {able} --gpus '{asked}'")),
        (_, n) => problem.try_this(format!("--nodes {able} --tasks-per-node {n} --gpus '{asked}'")),
    };
    match largest {
        None => problem,
        Some(largest) => {
            let less = asked.of_count(largest);
            problem.try_this(format!("--nodes {} --gpus '{less}'", gang.nodes))
        }
    }
}

/// The one line that says what was refused.
fn what(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Invalid { field, why } => format!("{field}: {why}"),
        Refusal::TooLarge { what, most } => format!("{what} is too large; the most is {most}"),
        Refusal::NoGpus { asked, .. } => {
            format!("{} asked for, and the cluster has no GPUs", request_words(asked))
        }
        Refusal::ImpossibleGpus { asked, .. } => {
            format!("no node could ever run this: {} on one node", request_words(asked))
        }
        Refusal::ImpossibleResource { kind, asked, .. } => {
            format!("no node could ever run this: {} on one node", amount_words(kind, *asked))
        }
        Refusal::TooFewNodes { asked, gang, .. } => {
            let what = if gang.anywhere {
                "there could never be room for this"
            } else {
                "too few nodes could ever run this"
            };
            format!("{what}: {}", gang_words(asked, *gang))
        }
        Refusal::NotPermitted { what } => format!("you may not {what}"),
        Refusal::HeldByAdmin { .. } => hold::what(refusal).unwrap_or_default(),
        Refusal::CannotRunAs { user, .. } => format!("this server can't run jobs of {user}"),
        Refusal::TooManyJobs { most, .. } => {
            format!("one user may have {most} jobs that have not ended")
        }
        Refusal::TooMuchStored { most, .. } => {
            format!("one user may have {most} of environments and scripts stored for jobs")
        }
        Refusal::TooManyDependencies { n_found: None, most, .. } => {
            format!("one job may wait for {most} others")
        }
        Refusal::TooManyDependencies { most, .. } => {
            format!("the jobs of one user may name {most} dependencies together")
        }
        Refusal::UserCap { most, project: None, .. } => {
            format!("one user may have {most} jobs that wait")
        }
        Refusal::UserCap { most, project: Some(project), .. } => {
            format!("one user may have {most} jobs that wait in project {project}")
        }
        Refusal::AboveUserCap { user, project, what, asked, most } => {
            let place = project.as_ref().map(|it| format!(" in project {it}")).unwrap_or_default();
            let [asked, most] = [asked, most].map(|amount| cap_words(*what, *amount));
            format!(
                "this could never run: it is {asked}, and {user} may have at most {most}{place}"
            )
        }
        Refusal::ExtendTooLong { asked: Some(asked), .. } => {
            format!("{asked} more is more than you may add to a job that runs")
        }
        Refusal::ExtendTooLong { asked: None, .. } => {
            "you may not take the limit off a job that runs".to_owned()
        }
        Refusal::DependencyCycle { jobs } => {
            let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            format!("a job would wait for itself: {} → {}", ids.join(" → "), ids[0])
        }
        Refusal::NotKept { id } => {
            format!("the environment or script of job {id} was removed after its end")
        }
        Refusal::NotRequeueable { id } => format!("job {id} is not to be run again"),
        Refusal::PriorityTooHigh { asked, .. } => {
            format!("priority {asked} is higher than you may ask for")
        }
        Refusal::NoSuchJob { id } => format!("there is no job {id}"),
        Refusal::NoSuchNode { name } => format!("there is no node {:?}", name.as_str()),
        Refusal::NoSuchDevice { device, node, .. } => format!("{node} has no GPU {device:?}"),
        Refusal::NoSuchReservation { name, .. } => {
            format!("there is no reservation {:?}", name.as_str())
        }
        Refusal::ReservationExists { name } => format!("there is a reservation {name} already"),
        Refusal::ReservationClash { other, .. } => {
            format!("reservation {other} keeps the same for somebody else at that time")
        }
        Refusal::NotEnoughToReserve { asked, spread, .. } => {
            let place = if *spread { "" } else { " on one node" };
            format!("there is not as much to reserve: {}{place}", request_words(asked))
        }
        Refusal::TooManyReservations { most } => {
            format!("there are {most} reservations, as many as there may be")
        }
        Refusal::AffectsOthers { action, .. } => {
            format!("nothing changed yet: to {action} touches the work of others")
        }
        Refusal::NotDrained { what } => format!("{what} is not drained"),
        Refusal::AlreadyEnded { id, state } => format!("job {id} has ended already: {state}"),
        Refusal::WrongState { id, state, action } => {
            format!("can't {action} job {id}: it is {state}")
        }
        Refusal::VersionConflict { id, .. } => format!("job {id} was changed by somebody else"),
        Refusal::DependencyNeverMet { job, state } => {
            format!("this would wait for ever: job {job} has ended already: {state}")
        }
        Refusal::OfJob { refusal, .. }
        | Refusal::InPool { refusal, .. }
        | Refusal::OnNodes { refusal, .. } => what(refusal),
        Refusal::NoSuchNodes { nodes, unknown, .. } => match unknown.as_slice() {
            [] => format!("the job may use no node: {nodes}"),
            [name] => format!("there is no node {:?}", name.as_str()),
            names => format!("there are no nodes {}", node_words(names)),
        },
        Refusal::NoSuchPool { name, .. } => format!("there is no pool {:?}", name.as_str()),
        Refusal::KeyReused { key } => {
            format!("the idempotency key {key:?} belongs to another request")
        }
        Refusal::StorageFull { .. } => {
            "the server can't store more; nothing was changed".to_owned()
        }
        Refusal::StateGone { .. } => {
            "the server's state folder was removed or replaced; nothing was changed".to_owned()
        }
        Refusal::Internal { .. } => "the server failed".to_owned(),
        Refusal::ShuttingDown => "the server is stopping".to_owned(),
        Refusal::NoSuchProject { .. }
        | Refusal::DepartmentTakesNoJobs { .. }
        | Refusal::NotMember { .. }
        | Refusal::AboveQuota { .. }
        | Refusal::TimeTooLong { .. }
        | Refusal::ProjectExists { .. }
        | Refusal::ProjectHasJobs { .. }
        | Refusal::ProjectHasChildren { .. }
        | Refusal::ProjectCycle { .. }
        | Refusal::ProjectNeeded { .. }
        | Refusal::TooManyProjects { .. }
        | Refusal::ProjectConflict { .. }
        | Refusal::AboveParent { .. } => project_words::what(refusal).unwrap_or_default(),
    }
}

fn no_such_pool(problem: Problem, name: &PoolName, pools: &[PoolName]) -> Problem {
    let names: Vec<&str> = pools.iter().map(PoolName::as_str).collect();
    let problem = problem.because(format!("nodes are in: {}", names.join(", ")));
    match nearest(name.as_str(), names.iter().copied()).or(names.first().copied()) {
        Some(near) => problem.try_this(format!("--pool {near}")),
        None => problem.try_this("gpool nodes"),
    }
}

fn no_such_nodes(
    problem: Problem,
    nodes: &NodeFilter,
    unknown: &[NodeName],
    there: &[(NodeName, Vec<String>)],
) -> Problem {
    let names: Vec<NodeName> = there.iter().map(|(name, _)| name.clone()).collect();
    let problem = problem.because(format!("nodes are: {}", node_words(&names)));
    if unknown.is_empty() && !nodes.rules.is_empty() {
        let labels: BTreeSet<&str> =
            there.iter().flat_map(|(_, labels)| labels).map(String::as_str).collect();
        let labels: Vec<&str> = labels.into_iter().collect();
        let problem = problem.because(match labels.is_empty() {
            true => "no node has a label".to_owned(),
            false => format!("their labels are: {}", labels.join(", ")),
        });
        return problem.try_this("gpool nodes -o wide   (shows the labels of each node)");
    }
    let near =
        unknown.first().and_then(|name| nearest(name.as_str(), names.iter().map(NodeName::as_str)));
    match near {
        Some(near) => problem.try_this(format!("--node {near}")),
        None => problem.try_this("gpool nodes"),
    }
}

fn node_words(names: &[NodeName]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// Devices that are there and that nobody may have.
fn kept_back(problem: Problem, n_devices: u32) -> Problem {
    if n_devices == 0 {
        return problem;
    }
    let are = if n_devices == 1 { "GPU of that kind is" } else { "GPUs of that kind are" };
    problem
        .because(format!("{n_devices} {are} kept from new jobs by an admin"))
        .try_this("gpool gpus allow all   (as an admin)")
}

fn impossible_gpus(
    mut problem: Problem,
    asked: &GpuRequest,
    largest: Option<&LargestFit>,
    nearest: Option<&GpuRequest>,
    models: &[(String, u32)],
) -> Problem {
    match largest {
        Some(largest) => {
            problem = problem.because(largest_words(asked, largest));
            let fits = GpuRequest { amount: asked.amount.of(largest.n_devices), ..asked.clone() };
            if largest.n_devices > 0 {
                problem = problem.try_this(format!("gpool run --gpus {} -- …", quoted(&fits)));
            }
        }
        None if models.is_empty() => problem = problem.because("no node has a GPU"),
        None => {
            let known: Vec<String> =
                models.iter().map(|(model, most)| format!("{model} (up to {most})")).collect();
            problem = problem.because(format!("the nodes have {}", known.join(", ")));
        }
    }
    if let Some(nearest) = nearest {
        problem = problem.try_this(format!("gpool run --gpus {} -- …", quoted(nearest)));
    }
    problem.try_this("--allow-unsatisfiable queues it until there is such a node")
}

/// A request as a shell takes it: quoted where it must be.
fn quoted(request: &GpuRequest) -> String {
    let written = request.to_string();
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | ',' | '-' | '_' | '@');
    if written.chars().all(is_plain) { written } else { format!("'{written}'") }
}

fn largest_words(asked: &GpuRequest, largest: &LargestFit) -> String {
    let LargestFit { n_devices, node, n_in_cluster } = largest;
    let kind = match (asked.memory_needed(), asked.models.is_empty()) {
        (Some(least), _) => format!("{} of at least {least}", gpus(*n_in_cluster)),
        (None, true) => gpus(*n_in_cluster).to_owned(),
        (None, false) => {
            let what = devices(*n_in_cluster, asked.is_of_instances());
            format!("{} {what}", models_words(asked))
        }
    };
    let are = if *n_in_cluster == 1 { "is" } else { "are" };
    format!(
        "the most on one node is {n_devices}, on {node}; there {are} {n_in_cluster} {kind} in all"
    )
}

fn impossible_resource(
    problem: Problem,
    kind: &ResourceKind,
    largest: u64,
    node: Option<&NodeName>,
) -> Problem {
    let problem = match node {
        Some(node) => {
            problem.because(format!("the largest is {node} with {}", amount_words(kind, largest)))
        }
        None => problem.because("no node has any"),
    };
    let problem = match kind {
        ResourceKind::Cpu if largest > 0 => {
            problem.try_this(format!("--cpus {}", MilliCpu::new(largest)))
        }
        ResourceKind::Memory if largest > 0 => {
            problem.try_this(format!("--mem {}", written(largest)))
        }
        _ => problem,
    };
    problem.try_this("--allow-unsatisfiable queues it until there is such a node")
}

/// Bytes as `--mem` takes them, rounded down.
fn written(bytes: u64) -> String {
    match Bytes::new(bytes).div_floor(1 << 30).get() {
        0 => format!("{}M", Bytes::new(bytes).div_floor(1 << 20).get()),
        gib => format!("{gib}G"),
    }
}
