//! A load on the API: clients that each keep one connection open and send the next request after
//! each answer. It writes HTTP itself, since the work of a client library would be measured too.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use gpool_cli::failure::Result;

use super::failed;
use super::process::threads_cpu_ms_of;

/// The request of a client.
#[derive(Debug, Clone, Copy)]
pub enum Ask {
    /// A health check: the cost of connections and of this program alone.
    Health,
    /// Submit a job.
    Submit,
    /// List one full page of jobs.
    List,
    /// Ask why a job waits.
    Why(u64),
    /// A whole request; every answer counts.
    Raw(&'static str),
}

/// The result of a load.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    /// Answers per second of all clients.
    pub per_s: f64,
    /// CPU cores that the clients used.
    pub own_cores: f64,
}

/// Sends `n_requests` requests in total from `n_clients` threads.
///
/// # Errors
/// The server does not answer, or refuses.
pub fn carry(socket: &Path, ask: Ask, n_clients: u32, n_requests: u32) -> Result<Carried> {
    let next = AtomicU32::new(0);
    // Part of each key, so that no run repeats the keys of another.
    let run = gpool_client::new_key();
    let own = std::process::id();
    let cpu_before = threads_cpu_ms_of(own);
    let began = Instant::now();
    let client = || -> std::io::Result<f64> {
        let mut connection = Connection::open(socket)?;
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= n_requests {
                // Counted before the thread ends.
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

/// A persistent connection.
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
        Ok(Self::over(UnixStream::connect(socket)?))
    }

    /// A connection over an open stream.
    pub fn over(stream: UnixStream) -> Self {
        let stream = BufReader::new(stream);
        Self { stream, request: Vec::new(), answer: Vec::new() }
    }

    /// The socket, for another thread to close.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn line(&self) -> std::io::Result<UnixStream> {
        self.stream.get_ref().try_clone()
    }

    /// The body of the last answer.
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Sends a request and reads the whole answer.
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
            Ask::Raw(request) => self.request.extend_from_slice(request.as_bytes()),
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
            _ if matches!(ask, Ask::Raw(_)) => Ok(()),
            _ => Err(bad(format!("answered {status}: {}", String::from_utf8_lossy(&self.answer)))),
        }
    }

    /// Reads a whole answer and returns its status.
    fn read_answer(&mut self) -> std::io::Result<u16> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status = status.ok_or_else(|| bad(format!("unexpected answer {line:?}")))?;
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
                length = value.trim().parse().map_err(|_| bad("a length is not a number"))?;
            }
            in_chunks |= name.eq_ignore_ascii_case("transfer-encoding");
        }
        while in_chunks {
            line.clear();
            self.stream.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim_end(), 16);
            let size = size.map_err(|_| bad("a chunk has no size"))?;
            // With the line end after it.
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
