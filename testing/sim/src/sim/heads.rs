//! Gangs with a head of another shape.

use std::sync::Arc;

use gpool_model::{Gang, JobPart, NewJob};

use crate::happening::Happening;
use crate::swarm::{Cluster, NodeShape};

/// Whether gangs on a cluster may have heads. Nodes that move and pause tasks have seeds of their
/// own, which heads would change.
pub(super) fn may_be_on(cluster: &Cluster) -> bool {
    let is_plain = |node: &NodeShape| !node.moves && !node.lends && !node.pauses;
    cluster.nodes.iter().all(is_plain)
}

/// Gives some gangs a head.
pub(super) fn added(mut job: NewJob, what: &Happening, has_heads: bool) -> NewJob {
    if !has_heads || (what.count("nodes") % 1000, what.count("each") % 1000) != (3, 1) {
        return job;
    }
    let head = JobPart::parse("head:1xcpu,cpus=1").expect("it is a part");
    let worker = JobPart {
        name: Arc::from("worker"),
        gpus: job.gpus.clone(),
        cpus: job.cpus,
        memory: job.memory,
        gang: Gang::new(2, 1).unwrap_or_default(),
    };
    job.set_parts(vec![head, worker]);
    job
}
