//! The connections of an agent.

use std::sync::{Arc, Mutex, mpsc};

use gpool_identity::secrets::Secrets;
use gpool_link::{AgentLink, ServerInbox as _};
use gpool_listen::testing::{ConnectionEnd, carry};
use gpool_model::agent::Order;
use gpool_model::{Bytes, Incarnation, LeaseTerms, Millis, NodeName, Round, Term, Timestamp};
use gpool_protocol::{AgentProcess, Decoder, Hello, Telemetry, ToAgent, ToServer, VERSION, encode};
use gpool_server::Limits;
use gpool_server::agents::{AgentConnection, AgentPeer};
use gpool_server::clock::now;
use gpool_server::files::FileStore;
use gpool_server::input::CoreMessage;
use gpool_server::launch_files::LaunchFiles;
use gpool_store::{Store, StoreOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
        let folders = Arc::new(FileStore::open(folder.path(), &Limits::default()).unwrap());
        let secrets = Arc::new(Secrets::new(folder.path()));
        let files = LaunchFiles { blobs, secrets, folders };
        let peer = AgentPeer::new(NodeName::new("lab2"), lease, inputs, files);
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
    ToServer::Hello(Hello { version, release: "0.3.1".to_owned(), node, incarnation })
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
fn an_agent_of_another_node_is_not_heard() {
    let rig = Rig::new(None);
    let (connection, link) = rig.connect();
    connection.message(hello("lab3", VERSION));
    connection.message(beat(1));
    assert_eq!((link.take(), rig.n_inputs()), (vec![], 0));
}

#[test]
fn agents_of_the_next_version_are_welcome_and_later_ones_are_refused_with_the_remedy() {
    let rig = Rig::new(Some(LeaseTerms::USUAL));
    let refusal = || rig.peer.view(Timestamp::new(0)).refusal;
    let (connection, link) = rig.connect();
    connection.message(hello("lab2", VERSION + 2));
    connection.message(beat(1));
    let sent = link.take();
    assert!(matches!(&sent[..], [ToAgent::Refused { version: VERSION, .. }]), "{sent:?}");
    assert_eq!(rig.n_inputs(), 0);
    let why = refusal().unwrap();
    assert!(why.contains("gpool 0.3.1 speaks version 3") && why.ends_with("upgrade the server"));
    for version in [VERSION + 1, VERSION - 1] {
        let (connection, link) = rig.connect();
        connection.message(hello("lab2", version));
        assert!(matches!(&link.take()[..], [ToAgent::Welcome { .. }]));
        assert_eq!(refusal(), None);
    }
}

#[test]
fn an_agent_of_another_machine_is_shown_with_its_clock_and_its_use() {
    let rig = Rig::new(Some(LeaseTerms::USUAL));
    let (connection, _link) = rig.connect();
    connection.message(hello("lab2", VERSION));
    let view = || rig.peer.view(now());
    assert_eq!((view().clock_offset_ms, view().memory), (None, None));
    let ahead = now().after(Millis::from_mins(60));
    let agent = AgentProcess { clock: ahead, cpu: Millis::new(5), memory: Bytes::from_mib(30) };
    connection
        .message(ToServer::Telemetry(Telemetry { agent: Some(agent), ..Telemetry::default() }));
    let offset = view().clock_offset_ms.unwrap();
    assert!((3_540_000..=3_600_000).contains(&offset), "{offset}");
    assert_eq!(view().memory, Some(Bytes::from_mib(30)));
    assert!(view().last_message_at.unwrap() <= now());
    // One reading shows no use yet.
    assert_eq!(view().cpu_percent, None);
}

/// An agent that reads and writes frames, and the end of its connection for the server.
struct Wire {
    stream: tokio::io::DuplexStream,
    decoder: Decoder,
}

impl Wire {
    fn new(n_bytes: usize) -> (Self, tokio::io::DuplexStream) {
        let (stream, server) = tokio::io::duplex(n_bytes);
        (Self { stream, decoder: Decoder::default() }, server)
    }

    async fn send(&mut self, message: &ToServer) {
        self.stream.write_all(&encode(message).unwrap()).await.unwrap();
    }

    async fn next(&mut self) -> ToAgent {
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return message;
            }
            let mut piece = [0; 4096];
            let n_read = self.stream.read(&mut piece).await.unwrap();
            assert!(n_read > 0, "the server closed the connection");
            self.decoder.push(&piece[..n_read]);
        }
    }
}

fn order() -> Order {
    Order::Sync { term: Term(1), round: Round(1), closed: [].into() }
}

#[tokio::test]
async fn messages_are_carried_until_the_agent_or_a_newer_connection_ends_it() {
    let rig = Rig::new(Some(LeaseTerms::USUAL));
    let (mut agent, stream) = Wire::new(1 << 16);
    let connection = rig.peer.accept();
    let old = tokio::spawn(async move { carry(stream, &connection).await });
    agent.send(&hello("lab2", VERSION)).await;
    assert!(matches!(agent.next().await, ToAgent::Welcome { .. }));
    agent.send(&beat(1)).await;
    assert_eq!(agent.next().await, ToAgent::Renewed { beat: 1 });
    let (mut newer, stream) = Wire::new(1 << 16);
    let connection = rig.peer.accept();
    let new = tokio::spawn(async move { carry(stream, &connection).await });
    assert!(matches!(old.await.unwrap(), ConnectionEnd::Replaced));
    newer.send(&hello("lab2", VERSION)).await;
    assert!(matches!(newer.next().await, ToAgent::Welcome { .. }));
    drop(newer);
    assert!(matches!(new.await.unwrap(), ConnectionEnd::Closed));
}

#[tokio::test]
async fn an_agent_that_takes_nothing_or_sends_nonsense_is_disconnected() {
    let rig = Rig::new(None);
    let (_stuck, stream) = Wire::new(16);
    let connection = rig.peer.accept();
    let peer = rig.peer.clone();
    let carried = tokio::spawn(async move { carry(stream, &connection).await });
    tokio::task::yield_now().await;
    (0..200).for_each(|_| peer.order(None, order()));
    assert!(matches!(carried.await.unwrap(), ConnectionEnd::Full));
    let (mut mad, stream) = Wire::new(1 << 16);
    let connection = rig.peer.accept();
    let carried = tokio::spawn(async move { carry(stream, &connection).await });
    mad.stream.write_all(&[0xff; 8]).await.unwrap();
    assert!(matches!(carried.await.unwrap(), ConnectionEnd::Frame(_)));
}
