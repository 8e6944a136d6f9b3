//! What each task asks of a node, and which nodes the job may use.

use std::collections::BTreeSet;

use gpool_model::{JobSpec, NodeFilter};

use super::super::Values::{Checked, Many};
use super::super::{Field, Flag, Group, written};
use super::{field, join};
use crate::node::cores;
use crate::{check, gang};

/// What each task asks of a node, and which nodes the job may use.
pub(super) static PLACE: &[Field] = &[
    Field {
        flag: Some(
            Flag::value(
                "gpus",
                "GPUS",
                Checked(written::gpus),
                "GPUs: 2, a100:2, 'a100|h100:2', 40G..:2, 0.5",
            )
            .short('g')
            .hyphen(),
        ),
        apply: |job, request| {
            (request.gpus, request.gpus_written) = job.gpu_request()?;
            Ok(())
        },
        show: |spec, _, shown| shown.gpus = spec.gpus_written.to_string(),
        ..field!("gpus", gpus)
    },
    Field {
        flag: Some(
            Flag::value(
                "gpu-share",
                "PART",
                Checked(written::gpu_share),
                "Of each GPU only that part, beside others: 0.5",
            )
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
                Checked(written::gpu_memory),
                "Of each GPU only so much memory, beside others: 20G",
            )
            .hyphen()
        }),
        ..field!("gpu_memory", gpu_memory)
    },
    Field {
        flag: Some(
            Flag::value(
                "nodes",
                "N[-MOST]",
                Checked(written::nodes),
                "Different nodes on which its tasks run, all at once (2), or so many and more \
                 while there is room (2-4); GPUs, cores, memory are of each task",
            )
            .short('N')
            .hyphen(),
        ),
        group: Group::Tasks,
        apply: |job, request| {
            request.gang = gang::gang(job)?;
            Ok(())
        },
        ..field!("nodes", nodes)
    },
    Field {
        flag: Some(Flag::value(
            "tasks-per-node",
            "N",
            Checked(written::tasks_per_node),
            "Tasks on each node",
        )),
        group: Group::Tasks,
        ..field!("tasks_per_node", tasks_per_node)
    },
    Field {
        flag: Some(Flag {
            conflicts: &["nodes", "tasks-per-node"],
            ..Flag::value(
                "tasks",
                "N[-MOST]",
                Checked(written::tasks),
                "Tasks that run all at once, wherever there is room, on as few nodes as that \
                 allows (8), or so many and more while there is room (4-8); GPUs, cores, memory \
                 are of each task",
            )
            .hyphen()
        }),
        group: Group::Tasks,
        ..field!("tasks", tasks)
    },
    Field {
        flag: Some(Flag::switch(
            "torchrun",
            "Give its tasks the variables that torchrun reads in place of its options",
        )),
        apply: |job, request| {
            request.torchrun = job.torchrun;
            Ok(())
        },
        ..field!("torchrun", torchrun)
    },
    Field {
        flag: Some(Flag::value(
            "launcher",
            "N",
            Checked(written::tasks_per_node),
            "Run the command in the first task alone; srun in it starts N processes in all of them",
        )),
        ..field!("launcher", launcher)
    },
    Field {
        flag: Some(
            Flag::value("cpus", "CORES", Checked(written::cpus), "CPU cores: 4, 0.5")
                .short('c')
                .hyphen(),
        ),
        apply: |job, request| {
            let cpus = job.cpus.as_ref().map(check::cpus).transpose()?;
            request.cpus = cpus.filter(|cpus| !cpus.is_zero());
            Ok(())
        },
        clears: true,
        show: |spec, _, shown| shown.cpus = spec.cpus.map(|cpus| cores(cpus.get())),
        ..field!("cpus", cpus)
    },
    Field {
        flag: Some(
            Flag::value("mem", "SIZE", Checked(written::memory), "Memory: 20G (GiB), 512M")
                .short('m')
                .hyphen(),
        ),
        apply: |job, request| {
            let memory = job.mem.as_ref().map(check::memory).transpose()?;
            request.memory = memory.filter(|memory| !memory.is_zero());
            Ok(())
        },
        clears: true,
        show: |spec, _, shown| shown.mem = spec.memory.map(|memory| memory.get()),
        ..field!("mem", mem)
    },
    Field {
        flag: Some(Flag::value(
            "pool",
            "POOL",
            Checked(written::filled),
            "Only on nodes of that pool",
        )),
        apply: |job, request| {
            request.pool = job.pool.as_deref().map(check::pool).transpose()?;
            Ok(())
        },
        show: |spec, _, shown| shown.pool = spec.pool.as_ref().map(ToString::to_string),
        ..field!("pool", pool)
    },
    Field {
        flag: Some(Flag::value(
            "node",
            "NODES",
            Many(written::node_list),
            "Only on these nodes: lab1,lab2 or node[1-4,7]",
        )),
        apply: |job, request| {
            request.nodes = job.node_filter()?;
            Ok(())
        },
        show: |spec, _, shown| shown.node = node_words(spec, |nodes| &nodes.include),
        ..field!("node", node)
    },
    Field {
        flag: Some(Flag::value(
            "not-node",
            "NODES",
            Many(written::node_list),
            "Not on these nodes",
        )),
        join: join!(not_node),
        show: |spec, _, shown| shown.not_node = node_words(spec, |nodes| &nodes.exclude),
        ..field!("not_node", not_node)
    },
    Field {
        flag: Some(Flag::value(
            "where",
            "RULE",
            Many(written::node_rule),
            "Only on nodes with a label: rack=3, rack!=3, ssd, 'rack=3|rack=4'; a GPU model is a \
             label",
        )),
        join: join!(rules),
        show: |spec, _, shown| shown.rules = node_words(spec, |nodes| &nodes.rules),
        ..field!("where", rules)
    },
    Field {
        flag: Some(Flag::switch(
            "exclusive",
            "Only on nodes without other jobs, and none starts there while it runs",
        )),
        show: |spec, _, shown| shown.exclusive = spec.is_exclusive(),
        ..field!("exclusive", exclusive)
    },
];

/// The words of one part of the rules for nodes.
fn node_words<T: ToString + 'static>(
    spec: &JobSpec,
    part: fn(&NodeFilter) -> &BTreeSet<T>,
) -> Vec<String> {
    spec.nodes.iter().flat_map(|nodes| part(nodes)).map(ToString::to_string).collect()
}
