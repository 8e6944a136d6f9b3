//! A task order with all its parts.

use std::sync::Arc;

use gpool_model::agent::TaskOrder;
use gpool_model::job::BlobId;
use gpool_model::{
    Allocation, AllocationState, Generation, GpuRequest, JobId, JobRequest, JobSpec, Millis,
    NodeName, Owner, PoolName, Resources, Slot, SlotPart, Term, Timestamp,
};

use crate::golden::{gpu, task};

pub fn task_order() -> TaskOrder {
    let spec = JobSpec {
        retry_of: None,
        joins: None,
        id: JobId::single(7),
        owner: Owner { uid: 1000, gid: 1000, user: Arc::from("ana") },
        script: None,
        context: BlobId(Arc::from("c")),
        setup: None,
        submitted_at: Timestamp::ZERO,
        request: JobRequest {
            name: Arc::from("train"),
            command: vec!["python".to_owned(), "train.py".to_owned()],
            gpus: GpuRequest::whole(1),
            gpus_written: Arc::from("1"),
            grace: Millis::from_secs(30),
            ..JobRequest::default()
        },
    };
    let allocation = Allocation {
        task: task(),
        node: NodeName::new("lab1"),
        slots: vec![Slot { index: 0, device: gpu(), part: SlotPart::Whole }],
        resources: Resources::none(),
        state: AllocationState::Placed,
    };
    TaskOrder {
        parts: Vec::new(),
        term: Term(3),
        generation: Generation(2),
        spec: Arc::new(spec),
        allocation,
        pool: PoolName::usual(),
        has_gate: false,
        sharer: None,
        nodes: vec![NodeName::new("lab1")],
        master_addr: "lab1".to_owned(),
    }
}
