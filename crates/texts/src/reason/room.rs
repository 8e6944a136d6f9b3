//! Reasons for missing free capacity.

use gpool_model::{Reason as R, ShareWith};
use serde_json::{Value, json};

use super::{
    About, Explanation, about, devices, free_words, request_words, share_part, share_words,
};
use crate::kind::{amount_words, in_api_unit, kind_word};

pub(super) const ABOUT: &[About] = &[
    about(
        "cpu_or_mem_short",
        "The nodes with free GPUs lack free CPU cores or memory.",
        "request less with --cpus and --mem",
    ),
    about(
        "gpu_memory_too_small",
        "No GPU has the requested memory.",
        "gpool gpus shows the memory of each GPU",
    ),
    about(
        "gpu_model_missing",
        "No node has enough GPUs of the requested model.",
        "gpool gpus lists the models; --gpus 'a100|h100:2' requests one of several",
    ),
    about(
        "gpu_share_not_free",
        "No GPU has the requested part free.",
        "request a smaller part of a GPU",
    ),
    about(
        "gpus_not_free",
        "Fewer GPUs are free than requested.",
        "gpool why shows the jobs that use them",
    ),
    about(
        "gpus_not_free_together",
        "Enough GPUs are free, but not on one node.",
        "request fewer GPUs, or wait until one node has enough",
    ),
    about(
        "nodes_not_free",
        "Fewer nodes have enough free capacity than the job needs.",
        "request fewer nodes, or less on each node",
    ),
    about(
        "share_not_allowed",
        "GPUs have the requested part free, but jobs on them may not share with this job.",
        "it starts when one of these jobs ends; --share-with and the pool's share_with decide",
    ),
    about(
        "slots_kept_for_gpus",
        "The node's free task slots are for jobs with GPUs (node_gpu_tasks_kept).",
        "it starts when a job without GPUs ends on the node; gpool queue shows the running jobs",
    ),
    about(
        "tasks_not_free",
        "Free capacity is too small for the tasks that the job starts with.",
        "request fewer tasks, or less for each task",
    ),
];

/// The values of a gang that needs nodes with one value of a label.
fn of_topology(need: u32, free: u32, able: u32, value: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("need", json!(need)),
        ("free", json!(free)),
        ("able", json!(able)),
        ("within", json!(value)),
    ]
}

pub(super) fn explain(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::GpusNotFree { need, free, of_instances } => (
            format!("It needs {need} {}, and {}", devices(*need, *of_instances), free_words(*free)),
            vec![("need", json!(need)), ("free", json!(free))],
        ),
        R::GpusNotFreeTogether { need, free, node, of_instances } => {
            let what = devices(*need, *of_instances);
            (
                format!(
                    "It needs {need} {what} on one node, and no node has more than {free} free"
                ),
                vec![("need", json!(need)), ("free", json!(free)), ("node", json!(node))],
            )
        }
        R::NodesNotFree { .. } | R::TasksNotFree { .. } => return of_gangs(reason),
        R::GpuModelMissing { asked, most } => {
            let text = match most {
                0 => format!("No node has {}", request_words(asked)),
                _ => format!(
                    "It needs {} on one node; the most on one node is {most}",
                    request_words(asked)
                ),
            };
            (text, vec![("asked", json!(asked.to_string())), ("most", json!(most))])
        }
        R::GpuMemoryTooSmall { need, largest } => (
            format!("It needs GPUs with at least {need}; the largest has {largest}"),
            vec![("need", json!(need)), ("largest", json!(largest))],
        ),
        _ => return told_of_parts(reason),
    })
}

/// Reasons for jobs of several tasks.
fn of_gangs(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::NodesNotFree { need, free, able, within: Some(value) }
        | R::TasksNotFree { need, free, able, within: Some(value) }
            if value.is_empty() =>
        {
            let text = "It needs nodes with the same label (--topology), and no node has the label";
            (text.to_owned(), of_topology(*need, *free, *able, value))
        }
        R::NodesNotFree { need, free, able, within: Some(value) } => (
            format!(
                "It needs {need} nodes at once with the same label (--topology). Those with \
                 {value:?} come closest: {able} are large enough, and {free} of them have enough \
                 free capacity"
            ),
            of_topology(*need, *free, *able, value),
        ),
        R::TasksNotFree { need, free, able, within: Some(value) } => (
            format!(
                "It needs {need} tasks at once on nodes with the same label (--topology). Those \
                 with {value:?} come closest: {able} fit, and the free capacity is enough for \
                 {free}"
            ),
            of_topology(*need, *free, *able, value),
        ),
        R::NodesNotFree { need, free, able, within: None } => {
            let text = match able < need {
                true => {
                    format!("It needs {need} nodes at once, and only {able} are large enough")
                }
                false => {
                    let enough = match free {
                        0 => "none of them has".to_owned(),
                        1 => "1 of them has".to_owned(),
                        n => format!("{n} of them have"),
                    };
                    format!(
                        "It needs {need} nodes at once; {able} are large enough, and {enough} \
                         enough free capacity"
                    )
                }
            };
            (text, vec![("need", json!(need)), ("free", json!(free)), ("able", json!(able))])
        }
        R::TasksNotFree { need, free, able, within: None } => {
            let text = match able < need {
                true => {
                    format!("It needs {need} tasks at once, and at most {able} fit on the nodes")
                }
                false => {
                    format!("It needs {need} tasks at once; the free capacity is enough for {free}")
                }
            };
            (text, vec![("need", json!(need)), ("free", json!(free)), ("able", json!(able))])
        }
        _ => return None,
    })
}

/// Reasons for fractions of a GPU, and host resources.
fn told_of_parts(reason: &R) -> Option<Explanation> {
    Some(match reason {
        R::GpuShareNotFree { need, share, free, node, largest } => {
            let text = match need {
                1 if largest.is_zero() => {
                    format!("It needs {}, and no GPU has a part free", share_words(*share))
                }
                1 => format!(
                    "It needs {}, and no GPU has more than {largest} free",
                    share_words(*share)
                ),
                _ => format!(
                    "It needs {} of each of {need} GPUs; {node} has {free} with that much free",
                    share_part(*share)
                ),
            };
            let facts = vec![
                ("need", json!(need)),
                ("share", json!(share.to_string())),
                ("free", json!(free)),
                ("node", json!(node)),
                ("largest", json!(largest)),
            ];
            (text, facts)
        }
        R::ShareNotAllowed { need, free, node, job, with } => {
            let among = match with {
                ShareWith::User => "only with jobs of one user",
                ShareWith::Project => "only with jobs of one project",
                ShareWith::Anyone => "with any job",
            };
            let text = format!("{node} has room, but job {job} shares its GPU {among}");
            let facts = vec![
                ("need", json!(need)),
                ("free", json!(free)),
                ("node", json!(node)),
                ("job", json!(job.to_string())),
                ("with", json!(with.as_str())),
            ];
            (text, facts)
        }
        R::CpuOrMemShort { kind, need, free, node } => {
            let [needed, left] = [need, free].map(|it| amount_words(kind, *it));
            let facts = vec![
                ("kind", json!(kind_word(kind))),
                ("need", in_api_unit(kind, *need)),
                ("free", in_api_unit(kind, *free)),
                ("node", json!(node)),
            ];
            (format!("It needs {needed}, and {node} has {left} free"), facts)
        }
        R::SlotsKeptForGpus { node, need, free, most, slots } => {
            let (used, kept) = (most.saturating_sub(*free), slots.saturating_sub(*most));
            let text = format!(
                "Jobs without GPUs use {used} of {slots} task slots of {node}; the other {kept} \
                 are for jobs with GPUs"
            );
            let facts = vec![
                ("node", json!(node)),
                ("need", json!(need)),
                ("free", json!(free)),
                ("most", json!(most)),
                ("slots", json!(slots)),
            ];
            (text, facts)
        }
        _ => return None,
    })
}
