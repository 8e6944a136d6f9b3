//! The address of a web server in its job, and the line of output that names it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gpool_wire::ForwardToJob;
use serde::{Deserialize, Serialize};

/// How long the web server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// More bytes of an answer are not read.
const ANSWER_MAX: u64 = 4 << 20;

/// Where a web server listens, on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// A port of the loopback address.
    Port(u16),
    /// The path of a Unix socket.
    Socket(String),
}

#[derive(Serialize, Deserialize)]
struct Line {
    gpool: Report,
}

#[derive(Serialize, Deserialize)]
struct Report {
    notebook: Address,
}

impl Address {
    /// The line of output that names the address.
    #[must_use]
    pub fn line(&self) -> String {
        let line = Line { gpool: Report { notebook: self.clone() } };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Reads such a line; `None` for any other.
    #[must_use]
    pub fn of_line(line: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Line>(line).ok().map(|line| line.gpool.notebook)
    }

    /// The request to connect to it.
    #[must_use]
    pub fn target(&self) -> ForwardToJob {
        match self {
            Self::Port(port) => ForwardToJob { port: Some(*port), ..ForwardToJob::default() },
            Self::Socket(path) => {
                ForwardToJob { socket: Some(path.clone()), ..ForwardToJob::default() }
            }
        }
    }

    /// Asks the web server for a path; returns the status and the body.
    ///
    /// # Errors
    /// It does not listen, or gives no answer of HTTP in time.
    pub fn get(&self, path: &str) -> io::Result<(u16, Vec<u8>)> {
        match self {
            Self::Port(port) => {
                let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                get(stream, path)
            }
            Self::Socket(socket) => {
                let stream = UnixStream::connect(socket)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                get(stream, path)
            }
        }
    }

    /// Whether a process listens there.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::Port(port) => TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok(),
            Self::Socket(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

/// With HTTP 1.0 the answer ends with the connection, and has no chunks.
fn get(mut stream: impl Read + Write, path: &str) -> io::Result<(u16, Vec<u8>)> {
    let head = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(bad)?;
    let status = answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    let status = status.and_then(|digits| digits.parse().ok()).ok_or_else(bad)?;
    Ok((status, answer.split_off(end + 4)))
}
