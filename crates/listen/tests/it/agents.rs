//! The connections of an agent.

use std::sync::{Arc, Mutex, mpsc};

use gpool_link::{AgentLink, ServerInbox as _};
use gpool_model::{Incarnation, LeaseTerms, NodeName};
use gpool_protocol::{Hello, Telemetry, ToAgent, ToServer, VERSION};
use gpool_server::agents::{AgentConnection, AgentPeer};
use gpool_server::input::CoreMessage;
use gpool_store::{Store, StoreOptions};

/// A link that stores messages.
#[derive(Default)]
struct Sent(Mutex<Vec<ToAgent>>);

impl AgentLink for Sent {
    fn send(&self, message: &ToAgent) {
        self.0.lock().unwrap().push(message.clone());
    }
}

impl Sent {
    fn take(&self) -> Vec<ToAgent> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Rig {
    peer: Arc<AgentPeer>,
    core: mpsc::Receiver<CoreMessage>,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new(lease: Option<LeaseTerms>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = Store::open(folder.path(), &StoreOptions::default()).unwrap();
        let (inputs, core) = mpsc::channel();
        let blobs = Arc::new(store.blobs().unwrap());
        let peer = AgentPeer::new(NodeName::new("lab2"), lease, inputs, blobs);
        Self { peer, core, _folder: folder }
    }

    fn connect(&self) -> (Arc<AgentConnection>, Arc<Sent>) {
        let (connection, link) = (self.peer.accept(), Arc::new(Sent::default()));
        connection.open(link.clone());
        (connection, link)
    }

    /// The number of messages that the core got since the last call.
    fn n_inputs(&self) -> usize {
        self.core.try_iter().count()
    }
}

fn hello(node: &str, version: u32) -> ToServer {
    let (node, incarnation) = (NodeName::new(node), Incarnation::new("one"));
    ToServer::Hello(Hello { version, node, incarnation })
}

fn beat(beat: u64) -> ToServer {
    ToServer::Telemetry(Telemetry { beat: Some(beat), ..Telemetry::default() })
}

#[test]
fn a_newer_connection_takes_the_place_of_the_older_one() {
    let rig = Rig::new(Some(LeaseTerms::USUAL));
    let welcome = ToAgent::Welcome { version: VERSION, lease: Some(LeaseTerms::USUAL) };
    let (old, old_link) = rig.connect();
    old.message(hello("lab2", VERSION));
    assert_eq!((old_link.take(), rig.n_inputs()), (vec![welcome.clone()], 1));
    old.message(beat(1));
    assert_eq!(old_link.take(), [ToAgent::Renewed { beat: 1 }]);
    let (new, new_link) = rig.connect();
    // Before the hello of the new one, neither counts.
    old.message(beat(2));
    new.message(beat(3));
    assert_eq!((old_link.take(), new_link.take(), rig.n_inputs()), (vec![], vec![], 0));
    new.message(hello("lab2", VERSION));
    new.message(beat(4));
    assert_eq!(new_link.take(), [welcome, ToAgent::Renewed { beat: 4 }]);
    // Late messages and a late link of the old connection change nothing.
    old.message(hello("lab2", VERSION));
    old.open(old_link.clone());
    new.message(beat(5));
    assert_eq!((old_link.take(), new_link.take()), (vec![], vec![ToAgent::Renewed { beat: 5 }]));
}

#[test]
fn an_agent_of_another_node_or_version_is_not_heard() {
    let rig = Rig::new(None);
    for (node, version) in [("lab3", VERSION), ("lab2", VERSION + 1)] {
        let (connection, link) = rig.connect();
        connection.message(hello(node, version));
        connection.message(beat(1));
        assert_eq!((link.take(), rig.n_inputs()), (vec![], 0));
    }
}
