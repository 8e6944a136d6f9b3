//! Raw HTTP, for details that a client would hide.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::Cluster;

pub struct Http {
    socket: PathBuf,
    /// The user, if it is not this process's.
    uid: Option<u32>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Header names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem; checks its content type and fields.
    pub fn problem_code(&self) -> String {
        let kind = self.header("content-type").unwrap_or_default();
        assert!(kind.starts_with("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{self:?}");
        assert!(problem["title"].is_string(), "{self:?}");
        problem["code"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

impl Http {
    pub fn new(cluster: &Cluster) -> Self {
        Self { socket: cluster.socket(), uid: None }
    }

    /// Requests as another user, which only root can do.
    pub fn of_user(cluster: &Cluster, uid: u32) -> Self {
        Self::at(&cluster.socket(), Some(uid))
    }

    /// Requests at any socket, as this process's user or another.
    pub fn at(socket: &Path, uid: Option<u32>) -> Self {
        Self { socket: socket.to_owned(), uid }
    }

    /// A connection to the server; the kernel reports the user that opened it.
    pub fn connect(&self) -> UnixStream {
        let socket = self.socket.clone();
        let Some(uid) = self.uid else { return UnixStream::connect(&socket).unwrap() };
        // Changes only this thread, permanently.
        let become_and_connect = move || {
            let (user, group) =
                (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(uid));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(group, group, group).unwrap();
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            UnixStream::connect(&socket).unwrap()
        };
        std::thread::spawn(become_and_connect).join().unwrap()
    }

    /// The raw answer for a path; empty if the server closes the connection.
    pub fn bytes(&self, path: &str) -> String {
        let mut bytes = Vec::new();
        // Only the bytes before the end count.
        let _ = self.open("GET", path, &[], b"").read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body)
    }

    pub fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let json = [("Content-Type", "application/json")];
        let headers: Vec<_> = json.iter().chain(headers).copied().collect();
        self.send("POST", path, &headers, body.to_string().as_bytes())
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut reader = self.open(method, path, headers, body);
        let (status, headers) = head(&mut reader);
        let mut body = Vec::new();
        // A server that refuses early closes the connection during the request; its answer has
        // arrived.
        let _ = reader.read_to_end(&mut body);
        Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() }
    }

    /// Opens a stream of events and reads its head.
    pub fn events(&self, after: Option<&str>) -> BufReader<UnixStream> {
        let accept = ("Accept", "text/event-stream");
        let mut headers = vec![accept];
        headers.extend(after.map(|id| ("Last-Event-ID", id)));
        let mut reader = self.open("GET", "/api/v1/events", &headers, b"");
        let (status, headers) = head(&mut reader);
        assert_eq!(status, 200, "{headers:?}");
        reader
    }

    fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> BufReader<UnixStream> {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        // HTTP/1.0: no chunks, and the body ends with the connection.
        let mut text = format!("{method} {path} HTTP/1.0\r\nHost: gpool\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.write_all(body));
        BufReader::new(stream)
    }
}

fn head(reader: &mut BufReader<UnixStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    (status, headers)
}

/// The next event of a stream: its ID and its data.
pub fn next_event(reader: &mut BufReader<UnixStream>) -> (String, Value) {
    let (mut id, mut data) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        let n_read = reader.read_line(&mut line).expect("an event comes in time");
        assert!(n_read > 0, "the stream has ended");
        match line.trim_end() {
            "" if data.is_empty() => {}
            "" => return (id, serde_json::from_str(&data).unwrap()),
            line => {
                if let Some(text) = line.strip_prefix("id:") {
                    text.trim().clone_into(&mut id);
                }
                if let Some(text) = line.strip_prefix("data:") {
                    data.push_str(text.trim());
                }
            }
        }
    }
}
