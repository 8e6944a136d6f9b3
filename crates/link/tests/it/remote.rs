//! The agent's end of a link over streams.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use gpool_link::{AgentInbox, Connection, ResultPart, ServerLink, remote};
use gpool_model::id::{Incarnation, JobId, NodeName, TaskId};
use gpool_model::job::BlobId;
use gpool_protocol::{Decoder, Hello, Question, QuestionId, Telemetry, ToAgent, ToServer, encode};

/// A connection as the server gets it; a stream has the question that asked for it.
type Dialed = (Option<QuestionId>, UnixStream);

/// Connects to the test.
struct Dial {
    dialed: Mutex<Sender<Dialed>>,
    /// How often a blob was lost on the way.
    n_lost: AtomicU32,
}

impl Dial {
    fn dial(&self, question: Option<QuestionId>) -> io::Result<Connection> {
        let (agent, server) = UnixStream::pair()?;
        let sent = self.dialed.lock().unwrap().send((question, server));
        sent.map_err(|_| io::Error::other("the test is over"))?;
        Ok(Connection { stream: agent, early: Vec::new() })
    }
}

impl remote::Dial for Dial {
    fn messages(&self) -> io::Result<Connection> {
        self.dial(None)
    }

    fn stream(&self, question: QuestionId) -> io::Result<Connection> {
        self.dial(Some(question))
    }

    fn answer(&self, frame: &[u8]) -> io::Result<()> {
        let mut decoder = Decoder::default();
        decoder.push(frame);
        let Some(ToServer::Answer { id, .. }) = decoder.next_message().unwrap() else {
            panic!("this is no answer");
        };
        self.dial(Some(id)).map(drop)
    }

    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>> {
        let fails = |kind| Err(io::Error::from(kind));
        match &*id.0 {
            "missing" => fails(io::ErrorKind::NotFound),
            "lost twice" if self.n_lost.fetch_add(1, Ordering::Relaxed) < 2 => {
                fails(io::ErrorKind::ConnectionReset)
            }
            _ => Ok(id.0.as_bytes().to_vec()),
        }
    }

    fn secret(&self, _: JobId, name: &str) -> io::Result<Vec<u8>> {
        self.blob(&BlobId(name.into()))
    }

    fn results(&self, task: TaskId, owner: u32, _: &ResultPart) -> io::Result<Vec<String>> {
        Ok(vec![format!("{task} of {owner}")])
    }
}

/// Passes messages on to the test.
struct Agent(Mutex<Sender<ToAgent>>);

impl AgentInbox for Agent {
    fn message(&self, message: ToAgent) {
        self.0.lock().unwrap().send(message).unwrap();
    }
}

struct Rig {
    link: Arc<dyn ServerLink>,
    dialed: Receiver<Dialed>,
    messages: Receiver<ToAgent>,
    agent: Arc<dyn AgentInbox>,
}

impl Rig {
    /// An agent that has said hello and listens.
    fn new() -> Self {
        let (dial, dialed) = channel();
        let (inbox, messages) = channel();
        let link =
            remote::link(Box::new(Dial { dialed: Mutex::new(dial), n_lost: AtomicU32::new(0) }));
        link.send(&hello());
        let agent: Arc<dyn AgentInbox> = Arc::new(Agent(Mutex::new(inbox)));
        link.listen(Arc::downgrade(&agent));
        Self { link, dialed, messages, agent }
    }

    /// The next connection for messages, as the server reads it.
    fn accept(&self) -> Server {
        let (question, stream) = self.dialed.recv().unwrap();
        assert_eq!(question, None);
        Server { stream, decoder: Decoder::default() }
    }
}

struct Server {
    stream: UnixStream,
    decoder: Decoder,
}

impl Server {
    /// The next message; `None` if the agent has closed the connection.
    fn next(&mut self) -> Option<ToServer> {
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece).unwrap() {
                0 => return None,
                n_read => self.decoder.push(&piece[..n_read]),
            }
        }
    }

    fn send(&mut self, message: &ToAgent) {
        self.stream.write_all(&encode(message).unwrap()).unwrap();
    }
}

fn hello() -> ToServer {
    let (node, incarnation) = (NodeName::new("lab2"), Incarnation::new("one"));
    ToServer::Hello(Hello {
        version: gpool_protocol::VERSION,
        release: String::new(),
        node,
        incarnation,
    })
}

fn beat(beat: u64) -> ToServer {
    ToServer::Telemetry(Telemetry { beat: Some(beat), ..Telemetry::default() })
}

fn question(n: u64) -> ToAgent {
    ToAgent::Question { id: QuestionId(n), question: Question::MigInstances { change: None } }
}

#[test]
fn each_connection_begins_with_the_hello_and_carries_messages_in_order() {
    let rig = Rig::new();
    let mut server = rig.accept();
    assert_eq!(server.next(), Some(hello()));
    (1..50).for_each(|n| rig.link.send(&beat(n)));
    (1..50).for_each(|n| assert_eq!(server.next(), Some(beat(n))));
    (1..50).for_each(|n| server.send(&question(n)));
    (1..50).for_each(|n| assert_eq!(rig.messages.recv().unwrap(), question(n)));
    // The server is killed: the agent comes back by itself.
    drop(server);
    let mut server = rig.accept();
    assert_eq!(server.next(), Some(hello()));
    server.send(&question(7));
    assert_eq!(rig.messages.recv().unwrap(), question(7));
    // An agent that ends says goodbye by closing its connection.
    let Rig { link, dialed, agent, .. } = rig;
    drop((link, agent));
    assert_eq!(server.next(), None);
    drop(dialed);
}

#[test]
fn an_unknown_message_is_skipped_and_a_length_without_sense_ends_the_connection() {
    let rig = Rig::new();
    let mut server = rig.accept();
    assert_eq!(server.next(), Some(hello()));
    let unknown = br#"{"of_tomorrow":{}}"#;
    let mut frame = u32::try_from(unknown.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(0_u32.to_be_bytes());
    frame.extend(unknown);
    server.stream.write_all(&frame).unwrap();
    server.send(&question(1));
    assert_eq!(rig.messages.recv().unwrap(), question(1));
    server.stream.write_all(&[0xff; 8]).unwrap();
    assert_eq!(server.next(), None);
    assert_eq!(rig.accept().next(), Some(hello()));
}

#[test]
fn a_server_that_takes_nothing_gets_a_new_connection() {
    let rig = Rig::new();
    let stuck = rig.accept();
    // In the end more than the kernel and the queue take.
    let mut server = loop {
        rig.link.send(&beat(u64::MAX));
        if let Ok((_, stream)) = rig.dialed.try_recv() {
            break Server { stream, decoder: Decoder::default() };
        }
    };
    assert_eq!(server.next(), Some(hello()));
    drop(stuck);
}

#[test]
fn a_stream_has_a_connection_of_its_own_for_both_directions() {
    let rig = Rig::new();
    let _messages = rig.accept();
    let (task, mut shepherd) = UnixStream::pair().unwrap();
    rig.link.connect(QuestionId(3), Connection { stream: task, early: b"early ".to_vec() });
    let (question, mut server) = rig.dialed.recv().unwrap();
    assert_eq!(question, Some(QuestionId(3)));
    shepherd.write_all(b"output").unwrap();
    server.write_all(b"input").unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    let mut input = String::new();
    shepherd.read_to_string(&mut input).unwrap();
    assert_eq!(input, "input");
    drop(shepherd);
    let mut output = String::new();
    server.read_to_string(&mut output).unwrap();
    assert_eq!(output, "early output");
}

#[test]
fn a_blob_is_fetched_until_the_server_answers() {
    let rig = Rig::new();
    let fetch = |id: &str| {
        let (reply, content) = std::sync::mpsc::channel();
        rig.link.blob(&BlobId(id.into()), Box::new(move |it| reply.send(it).unwrap()));
        content.recv().unwrap()
    };
    assert_eq!(fetch("x").unwrap(), b"x");
    assert_eq!(fetch("lost twice").unwrap(), b"lost twice");
    assert_eq!(fetch("missing").unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn output_arrives_from_a_program_that_ends_before_it_reads_its_input() {
    let ((mut program, near), (far, mut client)) =
        (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    program.write_all(b"output").unwrap();
    drop(program);
    let input = Connection { stream: far, early: b"input".to_vec() };
    let joined = std::thread::spawn(|| {
        remote::join(Connection { stream: near, early: Vec::new() }, input).unwrap();
    });
    client.write_all(b"more input").unwrap();
    let mut output = String::new();
    client.read_to_string(&mut output).unwrap();
    assert_eq!(output, "output");
    drop(client);
    joined.join().unwrap();
}
