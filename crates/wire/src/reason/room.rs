//! Reasons for missing free capacity.

use gpool_model::Reason as R;
use serde_json::json;

use super::{About, Told, about, devices, request_words, share_words};
use crate::kind::{amount_words, in_api_unit, kind_word};

pub(super) const ABOUT: &[About] = &[
    about(
        "cpu_or_mem_short",
        "The nodes with free GPUs lack CPU cores or memory.",
        "ask for less by --cpus and --mem",
    ),
    about("gpu_memory_too_small", "No free GPU has as much memory as is asked.", "gpool gpus"),
    about(
        "gpu_model_missing",
        "No free GPU is of a model that is asked.",
        "name more: 'a100|h100'",
    ),
    about("gpu_share_not_free", "No GPU has so large a share left.", "ask for a smaller share"),
    about("gpus_not_free", "Fewer GPUs are free than are asked.", "gpool why shows who has them"),
    about(
        "gpus_not_free_together",
        "Enough GPUs are free, but not on one node.",
        "ask for fewer, or wait until one node has them",
    ),
    about(
        "nodes_not_free",
        "Fewer nodes have room at once than a job of several nodes needs.",
        "ask for fewer nodes, or less on each",
    ),
    about(
        "slots_kept_for_gpus",
        "The node has task slots left and keeps them for jobs with GPUs (node_gpu_tasks_kept).",
        "it starts when a job without GPUs ends there; gpool queue shows those that run",
    ),
    about(
        "tasks_not_free",
        "Fewer tasks of a job have room at once than it starts with, wherever they may be.",
        "ask for fewer tasks, or less for each",
    ),
];

pub(super) fn told(reason: &R) -> Option<Told> {
    Some(match reason {
        R::GpusNotFree { need, free, of_instances } => (
            format!("{need} {} needed, {free} free", devices(*need, *of_instances)),
            vec![("need", json!(need)), ("free", json!(free))],
        ),
        R::GpusNotFreeTogether { need, free, node, of_instances } => {
            let what = devices(*need, *of_instances);
            (
                format!("{need} {what} needed together; {node} has {free} free"),
                vec![("need", json!(need)), ("free", json!(free)), ("node", json!(node))],
            )
        }
        R::NodesNotFree { need, free, able } => {
            let text = match able < need {
                true => {
                    format!("{need} nodes needed at once, and {able} could ever hold a part of it")
                }
                false => format!(
                    "{need} nodes needed at once; {free} of {able} that could hold it have room"
                ),
            };
            (text, vec![("need", json!(need)), ("free", json!(free)), ("able", json!(able))])
        }
        R::TasksNotFree { need, free, able } => {
            let text = match able < need {
                true => format!("{need} tasks at once, and there could ever be room for {able}"),
                false => format!("{need} tasks needed at once; there is room for {free}"),
            };
            (text, vec![("need", json!(need)), ("free", json!(free)), ("able", json!(able))])
        }
        R::GpuModelMissing { asked, most } => {
            let text = match most {
                0 => format!("no node has {}", request_words(asked)),
                _ => format!(
                    "{} needed on one node; the most on one is {most}",
                    request_words(asked)
                ),
            };
            (text, vec![("asked", json!(asked.to_string())), ("most", json!(most))])
        }
        R::GpuMemoryTooSmall { need, largest } => (
            format!("GPUs of at least {need} needed; the largest has {largest}"),
            vec![("need", json!(need)), ("largest", json!(largest))],
        ),
        _ => return told_of_parts(reason),
    })
}

/// Reasons for fractions of a GPU, and host resources.
fn told_of_parts(reason: &R) -> Option<Told> {
    Some(match reason {
        R::GpuShareNotFree { need, share, free, node, largest } => {
            let of_one = share_words(*share);
            let text = match need {
                1 => format!("{of_one} needed; at most {largest} of one are free"),
                _ => format!(
                    "{of_one} needed on each of {need}; {node} has {free} with that much free"
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
        R::CpuOrMemShort { kind, need, free, node } => {
            let [needed, left] = [need, free].map(|it| amount_words(kind, *it));
            let facts = vec![
                ("kind", json!(kind_word(kind))),
                ("need", in_api_unit(kind, *need)),
                ("free", in_api_unit(kind, *free)),
                ("node", json!(node)),
            ];
            (format!("{needed} needed; {node} has {left} free"), facts)
        }
        R::SlotsKeptForGpus { node, need, free, most, slots } => {
            let (used, kept) = (most.saturating_sub(*free), slots.saturating_sub(*most));
            let text = format!(
                "jobs without GPUs have {used} of {slots} task slots of {node}, and {kept} are \
                 kept for jobs with GPUs"
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
