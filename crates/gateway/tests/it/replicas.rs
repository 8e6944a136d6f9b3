//! The jobs of replicas.

use std::collections::BTreeSet;

use gpool_gateway::plan::Stage;
use gpool_gateway::replicas::{ReplicaJob, name, port};
use gpool_model::job::JobState;
use gpool_wire::{Job, JobCreate};

#[test]
fn a_replica_is_known_by_its_group_and_name() {
    let job = |group: &str, name: &str| Job {
        name: name.to_owned(),
        state: JobState::Running,
        request: JobCreate { group: Some(group.to_owned()), ..JobCreate::default() },
        ..Job::default()
    };
    let replica = ReplicaJob::of(job("chat/replica/7", &name("chat", 3))).unwrap();
    assert_eq!((replica.index, replica.revision, replica.stage()), (7, 3, Some(Stage::Starting)));
    assert_eq!(ReplicaJob::of(job("chat/replica/7", "mine")).unwrap().revision, 0);
    assert!(ReplicaJob::of(job("chat/gateway", "chat-gateway")).is_none());
    assert!(ReplicaJob::of(job("chat/replica", "chat-r1")).is_none());
}

#[test]
fn replicas_of_a_service_have_ports_of_their_own() {
    let ports: BTreeSet<u16> = (0..1000).map(|index| port(u32::MAX, index)).collect();
    assert_eq!(ports.len(), 1000);
    assert!(ports.iter().all(|port| (20_000..32_000).contains(port)));
    assert_eq!(port(7, 12_000), port(7, 0));
}
