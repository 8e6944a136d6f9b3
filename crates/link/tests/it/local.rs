//! The link within a process.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use gpool_link::{AgentInbox, Connection, ResultPart, SecretQuery, ServerInbox, local};
use gpool_model::id::{Incarnation, NodeName, TaskId};
use gpool_model::job::BlobId;
use gpool_protocol::{Hello, Question, QuestionId, ToAgent, ToServer};

/// Stores what arrives.
#[derive(Default)]
struct Inbox {
    messages: Mutex<Vec<ToServer>>,
    connections: Mutex<Vec<(QuestionId, Connection)>>,
}

impl ServerInbox for Inbox {
    fn message(&self, message: ToServer) {
        self.messages.lock().unwrap().push(message);
    }

    fn connection(&self, question: QuestionId, connection: Connection) {
        self.connections.lock().unwrap().push((question, connection));
    }

    fn blob(&self, id: &BlobId) -> io::Result<Vec<u8>> {
        Ok(id.0.as_bytes().to_vec())
    }

    fn secret(&self, query: &SecretQuery) -> io::Result<Vec<u8>> {
        Ok(query.name.clone().into_bytes())
    }

    fn results(&self, task: TaskId, owner: u32, _: &ResultPart) -> io::Result<Vec<String>> {
        Ok(vec![format!("{task} of {owner}")])
    }
}

fn question(n: u64) -> ToAgent {
    ToAgent::Question { id: QuestionId(n), question: Question::MigInstances { change: None } }
}

/// Stores what arrives.
#[derive(Default)]
struct Agent(Mutex<Vec<ToAgent>>);

impl AgentInbox for Agent {
    fn message(&self, message: ToAgent) {
        self.0.lock().unwrap().push(message);
    }
}

#[test]
fn an_agent_gets_messages_in_order_from_when_it_listens_until_it_ends() {
    let (link, end) = local::link(Arc::new(Inbox::default()));
    let sent: Vec<ToAgent> = (0..1000).map(question).collect();
    link.send(&sent[0]);
    let agent = Arc::new(Agent::default());
    let inbox: Arc<dyn AgentInbox> = agent.clone();
    end.listen(Arc::downgrade(&inbox));
    sent[1..].iter().for_each(|message| link.send(message));
    assert_eq!(*agent.0.lock().unwrap(), sent[1..]);
    drop(inbox);
    let agent = Arc::into_inner(agent).expect("the link does not hold it");
    link.send(&sent[0]);
    assert_eq!(agent.0.into_inner().unwrap().len(), 999);
}

#[test]
fn messages_blobs_and_streams_reach_the_server() {
    let inbox = Arc::new(Inbox::default());
    let (_link, end) = local::link(inbox.clone());
    let (node, incarnation) = (NodeName::new("lab1"), Incarnation::new("b"));
    let hello = ToServer::Hello(Hello { version: 1, release: String::new(), node, incarnation });
    end.send(&hello);
    assert_eq!(*inbox.messages.lock().unwrap(), [hello]);
    let (reply, content) = std::sync::mpsc::channel();
    end.blob(&BlobId("abc".into()), Box::new(move |it| reply.send(it).unwrap()));
    assert_eq!(content.recv().unwrap().unwrap(), b"abc");
    let (mut task, stream) = UnixStream::pair().unwrap();
    let early = b"early".to_vec();
    end.connect(QuestionId(7), Connection { stream, early });
    let (id, mut connection) = inbox.connections.lock().unwrap().pop().unwrap();
    assert_eq!((id, &*connection.early), (QuestionId(7), &b"early"[..]));
    connection.stream.write_all(b"in").unwrap();
    let mut read = [0; 2];
    task.read_exact(&mut read).unwrap();
    assert_eq!(&read, b"in");
}
