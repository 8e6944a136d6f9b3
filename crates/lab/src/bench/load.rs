//! A load on the API: clients that each keep one connection open and ask as soon as they were
//! answered. It writes requests by itself, since what a client library does with an answer would be
//! measured too.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use gpool_cli::failure::Result;

use super::failed;
use super::process::threads_cpu_ms_of;

/// What clients ask.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// Whether the server lives: what the connections and this program alone cost.
    Health,
    /// Take a job.
    Submit,
    /// List as many jobs as one page may have.
    List,
    /// Say why a job waits.
    Why(u64),
}

/// What a load came to.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    /// Answers a second, all clients together.
    pub per_s: f64,
    /// CPU cores that the clients kept busy.
    pub own_cores: f64,
}

/// Asks `n_requests` times in all, each of `n_clients` on a thread of its own.
///
/// # Errors
/// The server does not answer, or refuses.
pub fn carry(socket: &Path, ask: Ask, n_clients: u32, n_requests: u32) -> Result<Carried> {
    let next = AtomicU32::new(0);
    // A key is made of it, so that no run repeats another's.
    let run = gpool_client::new_key();
    let own = std::process::id();
    let cpu_before = threads_cpu_ms_of(own);
    let began = Instant::now();
    let client = || -> std::io::Result<f64> {
        let mut connection = Connection::open(socket)?;
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= n_requests {
                // It is counted while it lives.
                return Ok(this_thread_cpu_ms());
            }
            connection.ask(ask, &run, n)?;
        }
    };
    let answers: Vec<std::io::Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_clients).map(|_| scope.spawn(client)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(bad("a client panicked"))))
            .collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let mut cpu_ms = threads_cpu_ms_of(own) - cpu_before;
    for answer in answers {
        cpu_ms += answer.map_err(|error| failed(format!("a client of the load: {error}")))?;
    }
    Ok(Carried { per_s: f64::from(n_requests) / seconds, own_cores: cpu_ms / 1000.0 / seconds })
}

/// CPU time of the calling thread in milliseconds.
fn this_thread_cpu_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1000.0 + time.tv_nsec as f64 / 1e6
}

fn bad(what: impl Into<String>) -> std::io::Error {
    std::io::Error::other(what.into())
}

/// One connection that is kept.
pub struct Connection {
    stream: BufReader<UnixStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn open(socket: &Path) -> std::io::Result<Self> {
        let stream = BufReader::new(UnixStream::connect(socket)?);
        Ok(Self { stream, request: Vec::new(), answer: Vec::new() })
    }

    /// The line itself, to be cut by another thread.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn line(&self) -> std::io::Result<UnixStream> {
        self.stream.get_ref().try_clone()
    }

    /// Asks, and reads the answer whole.
    ///
    /// # Errors
    /// The connection is lost, or the server refuses.
    pub fn ask(&mut self, ask: Ask, run: &str, n: u32) -> std::io::Result<()> {
        self.request.clear();
        match ask {
            Ask::List => write!(
                self.request,
                "GET /api/v1/jobs?limit=10000 HTTP/1.1\r\nhost: gpool\r\n\r\n"
            )?,
            Ask::Why(job) => {
                write!(self.request, "GET /api/v1/jobs/{job}/why HTTP/1.1\r\nhost: gpool\r\n\r\n")?
            }
            Ask::Health => write!(self.request, "GET /healthz HTTP/1.1\r\nhost: gpool\r\n\r\n")?,
            Ask::Submit => {
                let body = r#"{"command":["/bin/true"],"gpus":"1","directory":"/"}"#;
                write!(
                    self.request,
                    "POST /api/v1/jobs HTTP/1.1\r\nhost: gpool\r\n\
                     content-type: application/json\r\nidempotency-key: {run}-{n}\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                )?;
            }
        }
        self.stream.get_mut().write_all(&self.request)?;
        let status = self.read_answer()?;
        match status {
            200..=299 => Ok(()),
            _ => Err(bad(format!("answered {status}: {}", String::from_utf8_lossy(&self.answer)))),
        }
    }

    /// Reads one answer whole and gives its status.
    fn read_answer(&mut self) -> std::io::Result<u16> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| bad(format!("no answer but {line:?}")))?;
        let (mut length, mut in_chunks) = (0, false);
        loop {
            line.clear();
            self.stream.read_line(&mut line)?;
            let header = line.trim_end();
            if header.is_empty() {
                break;
            }
            let Some((name, value)) = header.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| bad("a length that is no number"))?;
            }
            in_chunks |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        while in_chunks {
            line.clear();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim_end(), 16);
            let size = size.map_err(|_| bad("a chunk without its size"))?;
            // With the line end behind it.
            self.answer.resize(size + 2, 0);
            self.stream.read_exact(&mut self.answer)?;
            in_chunks = size > 0;
            length = 0;
        }
        self.answer.resize(length, 0);
        self.stream.read_exact(&mut self.answer)?;
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Answers each connection's requests with what is given, and counts them.
    fn answering(folder: &Path, answer: &'static str) -> std::path::PathBuf {
        let path = folder.join("s");
        let listener = UnixListener::bind(&path).expect("a short path");
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    let mut line = String::new();
                    while reader.read_line(&mut line).is_ok_and(|n| n > 0) {
                        if line == "\r\n" && reader.get_mut().write_all(answer.as_bytes()).is_err()
                        {
                            return;
                        }
                        line.clear();
                    }
                });
            }
        });
        path
    }

    #[test]
    fn every_request_is_answered_once() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = answering(folder.path(), "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        let carried = carry(&socket, Ask::Health, 4, 100).expect("all are answered");
        assert!(carried.per_s > 0.0 && carried.own_cores >= 0.0, "{carried:?}");
    }

    #[test]
    fn a_refusal_is_said() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let socket = answering(folder.path(), "HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy");
        let failure = carry(&socket, Ask::Health, 2, 10).expect_err("it is refused");
        assert!(format!("{failure:?}").contains("503"), "{failure:?}");
    }
}
