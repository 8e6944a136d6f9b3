//! Fields for the resources of each task, and for the nodes that the job may use.

use std::collections::BTreeSet;

use gpool_model::{JobSpec, NodeFilter};

use super::super::Values::{Checked, Many};
use super::super::{Field, Flag, Group, heading, validate};
use super::{field, join};
use crate::amount::Quantity;
use crate::{check, gang, parts};
use gpool_texts::words::cores;

/// The resources of each task, and the nodes that the job may use.
pub(super) static PLACE: &[Field] = &[
    Field {
        flag: Some(
            Flag::value(
                "gpus",
                "GPUS",
                Checked(validate::gpus),
                "GPUs of each task, e.g. 2, a100:2, 'a100|h100:2', 40G..:2, 0.5 or 0.25:0.8",
            )
            .under(heading::RESOURCES)
            .short('g')
            .hyphen(),
        ),
        apply: |job, request| {
            (request.gpus, request.gpus_written) = job.gpu_request()?;
            Ok(())
        },
        show: Some(|spec, _, shown| {
            shown.gpus = (!spec.has_parts()).then(|| spec.gpus_written.to_string());
        }),
        ..field!("gpus", gpus)
    },
    Field {
        flag: Some(
            Flag::value(
                "gpu-share",
                "PART",
                Checked(validate::gpu_share),
                "Fraction of each GPU, shared with other jobs, e.g. 0.5, or 0.25:0.8 for a \
                 limit above the guaranteed request",
            )
            .under(heading::RESOURCES)
            .hyphen(),
        ),
        ..field!("gpu_share", gpu_share)
    },
    Field {
        flag: Some(Flag {
            alias: Some("gpu-mem"),
            hidden_alias: Some("max-gpu-mem"),
            ..Flag::value(
                "gpu-memory",
                "SIZE",
                Checked(validate::gpu_memory),
                "Memory of each GPU, shared with other jobs, e.g. 20G, or 20G:40G for a limit \
                 above the guaranteed request",
            )
            .under(heading::RESOURCES)
            .hyphen()
        }),
        ..field!("gpu_memory", gpu_memory)
    },
    Field {
        flag: Some(
            Flag::value(
                "kind",
                "KIND",
                Checked(validate::kind),
                "Kind of the job: train (default), notebook (default for jobs with a terminal), \
                 serve or data",
            )
            .under(heading::RESOURCES),
        ),
        clears: true,
        apply: |job, request| {
            request.life.habits.kind = job.kind.as_deref().map(check::kind).transpose()?;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.kind = Some(spec.kind().to_string())),
        ..field!("kind", kind)
    },
    Field {
        flag: Some(
            Flag::value(
                "idle-after",
                "TIME",
                Checked(validate::idle_after),
                "Time without use of its GPUs after which the policy for idle jobs applies, e.g. \
                 30m (default for notebooks) or off",
            )
            .under(heading::RESOURCES)
            .hyphen(),
        ),
        clears: true,
        apply: |job, request| {
            let after = job.idle_after.as_ref().map(check::idle_after).transpose()?;
            request.life.habits.idle_after = after;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.idle_after = spec.idle_after().map(Quantity::from)),
        ..field!("idle_after", idle_after)
    },
    Field {
        flag: Some(
            Flag::value(
                "enforce",
                "LEVEL",
                Checked(validate::enforce),
                "Least enforcement of the GPUs or their fractions: booked (default), monitored, \
                 capped or isolated",
            )
            .under(heading::RESOURCES),
        ),
        label: Some("enforce"),
        show: Some(|spec, _, shown| {
            let level = Some(spec.gpus.enforce).filter(|level| !level.is_booked());
            shown.enforce = level.map(|level| level.to_string());
        }),
        ..field!("enforce", enforce)
    },
    Field {
        flag: Some(
            Flag::value(
                "share-with",
                "JOBS",
                Checked(validate::share_with),
                "Jobs that may share its GPUs: user (of the same user), project or anyone \
                 (default: share_with of the pool)",
            )
            .under(heading::RESOURCES),
        ),
        apply: |job, request| {
            request.share_with = check::share_with(job.share_with.as_deref())?;
            Ok(())
        },
        clears: true,
        label: Some("share with"),
        show: Some(|spec, _, shown| {
            shown.share_with = spec.share_with.map(|with| with.to_string());
        }),
        ..field!("share_with", share_with)
    },
    Field {
        flag: Some(
            Flag::value(
                "nodes",
                "N[-MOST]",
                Checked(validate::nodes),
                "Number of nodes (default: 1), e.g. 2, or 2-4 to grow while nodes are free; GPUs, \
                 cores and memory apply to each task",
            )
            .under(heading::NODES)
            .short('N')
            .hyphen(),
        ),
        group: Group::Tasks,
        apply: |job, request| {
            request.gang = gang::gang(job)?;
            Ok(())
        },
        show: Some(|spec, _, shown| {
            let is_many = !spec.gang.anywhere && spec.gang.nodes_most > 1 && !spec.has_parts();
            shown.nodes = is_many.then(|| gang::range_words(&spec.gang));
        }),
        ..field!("nodes", nodes)
    },
    Field {
        flag: Some(
            Flag::value(
                "tasks-per-node",
                "N",
                Checked(validate::tasks_per_node),
                "Number of tasks on each node (default: 1)",
            )
            .under(heading::NODES),
        ),
        group: Group::Tasks,
        show: Some(|spec, _, shown| {
            let each = Some(spec.gang.tasks_per_node).filter(|_| !spec.has_parts());
            shown.tasks_per_node = each.filter(|each| *each > 1);
        }),
        ..field!("tasks_per_node", tasks_per_node)
    },
    Field {
        flag: Some(Flag {
            conflicts: &["nodes", "tasks-per-node"],
            ..Flag::value(
                "tasks",
                "N[-MOST]",
                Checked(validate::tasks),
                "Number of tasks, on as few nodes as possible, e.g. 8, or 4-8 to grow while GPUs \
                 are free; GPUs, cores and memory apply to each task",
            )
            .under(heading::NODES)
            .hyphen()
        }),
        group: Group::Tasks,
        show: Some(|spec, _, shown| {
            shown.tasks = spec.gang.anywhere.then(|| gang::range_words(&spec.gang));
        }),
        ..field!("tasks", tasks)
    },
    Field {
        flag: Some(
            Flag::switch(
                "torchrun",
                "Set the environment variables that torchrun reads instead of its options",
            )
            .under(heading::NODES),
        ),
        apply: |job, request| {
            request.torchrun = job.torchrun;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.torchrun = spec.torchrun),
        ..field!("torchrun", torchrun)
    },
    Field {
        flag: Some(
            Flag::value(
                "launcher",
                "N",
                Checked(validate::tasks_per_node),
                "Number of processes that srun starts by default; only the first task runs \
             the command",
            )
            .under(heading::NODES),
        ),
        show: Some(|spec, _, shown| {
            shown.launcher = Some(spec.gang.launcher).filter(|launcher| *launcher > 0);
        }),
        ..field!("launcher", launcher)
    },
    Field {
        flag: Some(
            Flag::value("cpus", "CORES", Checked(validate::cpus), "CPU cores, e.g. 4 or 0.5")
                .under(heading::RESOURCES)
                .short('c')
                .hyphen(),
        ),
        apply: |job, request| {
            let cpus = job.cpus.as_ref().map(check::cpus).transpose()?;
            request.cpus = cpus.filter(|cpus| !cpus.is_zero());
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| {
            let cpus = spec.cpus.filter(|_| !spec.has_parts());
            shown.cpus = cpus.map(|cpus| Quantity::Decimal(cores(cpus.get())));
        }),
        ..field!("cpus", cpus)
    },
    Field {
        flag: Some(
            Flag::value("mem", "SIZE", Checked(validate::memory), "Memory, e.g. 20G (GiB) or 512M")
                .under(heading::RESOURCES)
                .short('m')
                .hyphen(),
        ),
        apply: |job, request| {
            let memory = job.mem.as_ref().map(check::memory).transpose()?;
            request.memory = memory.filter(|memory| !memory.is_zero());
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| {
            let memory = spec.memory.filter(|_| !spec.has_parts());
            shown.mem = memory.map(|memory| memory.get().into());
        }),
        ..field!("mem", mem)
    },
    Field {
        flag: Some(Flag {
            conflicts: &["gpus", "cpus", "mem", "nodes", "tasks-per-node", "tasks"],
            ..Flag::value(
                "part",
                "NAME:NODESxGPUS",
                Many(validate::part),
                "Part of a job with tasks of different shapes, e.g. head:1xcpu and \
                 worker:4xa100:8,cpus=16,mem=100G,tasks=2",
            )
            .under(heading::NODES)
        }),
        group: Group::Tasks,
        apply: |job, request| {
            request.set_parts(parts::parts(job)?);
            Ok(())
        },
        label: Some("parts"),
        show: Some(|spec, _, shown| {
            shown.parts = spec.parts.iter().map(ToString::to_string).collect();
        }),
        ..field!("parts", parts)
    },
    Field {
        flag: Some(
            Flag::value(
                "pool",
                "POOL",
                Checked(validate::filled),
                "Pool of nodes to run in (default: any)",
            )
            .under(heading::NODES),
        ),
        apply: |job, request| {
            request.pool = job.pool.as_deref().map(check::pool).transpose()?;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.pool = spec.pool.as_ref().map(ToString::to_string)),
        ..field!("pool", pool)
    },
    Field {
        flag: Some(
            Flag::value(
                "node",
                "NODES",
                Many(validate::node_list),
                "Nodes to use (default: all), e.g. lab1,lab2 or node[1-4,7]",
            )
            .under(heading::NODES),
        ),
        apply: |job, request| {
            request.nodes = job.node_filter()?;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.node = node_words(spec, |nodes| &nodes.include)),
        ..field!("node", node)
    },
    Field {
        flag: Some(
            Flag::value(
                "not-node",
                "NODES",
                Many(validate::node_list),
                "Nodes to avoid, e.g. lab1,lab2 or node[1-4,7]",
            )
            .under(heading::NODES),
        ),
        join: join!(not_node),
        show: Some(|spec, _, shown| shown.not_node = node_words(spec, |nodes| &nodes.exclude)),
        ..field!("not_node", not_node)
    },
    Field {
        flag: Some(
            Flag::value(
                "where",
                "RULE",
                Many(validate::node_rule),
                "Rule for node labels or GPU models, e.g. rack=3, rack!=3, ssd or \
             'rack=3|rack=4'",
            )
            .under(heading::NODES),
        ),
        join: join!(rules),
        show: Some(|spec, _, shown| shown.rules = node_words(spec, |nodes| &nodes.rules)),
        ..field!("where", rules)
    },
    Field {
        flag: Some(
            Flag::value(
                "topology",
                "TOPOLOGY",
                Checked(validate::topology),
                "What the nodes of a gang have in common: same-switch, same-rack, same-nvlink or \
                 same-LABEL; with 'prefer same-rack' it takes others if these are not free",
            )
            .under(heading::NODES),
        ),
        show: Some(|spec, _, shown| {
            let topology = spec.nodes.as_ref().and_then(|nodes| nodes.topology.as_ref());
            shown.topology = topology.map(ToString::to_string);
        }),
        ..field!("topology", topology)
    },
    Field {
        flag: Some(
            Flag::switch(
                "exclusive",
                "Run only on nodes without other jobs, and start no other job there",
            )
            .under(heading::NODES),
        ),
        show: Some(|spec, _, shown| shown.exclusive = spec.is_exclusive()),
        ..field!("exclusive", exclusive)
    },
];

/// Formats one part of the node filter.
fn node_words<T: ToString + 'static>(
    spec: &JobSpec,
    part: fn(&NodeFilter) -> &BTreeSet<T>,
) -> Vec<String> {
    spec.nodes.iter().flat_map(|nodes| part(nodes)).map(ToString::to_string).collect()
}
