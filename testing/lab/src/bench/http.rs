//! A small HTTP server as replica, and clients of it: at a steady rate, or again and again.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;

use super::failed;

/// The first argument if this program is such a server.
pub const SERVER_ARGUMENT: &str = "__http";

/// Connections of a steady load.
pub const CLIENTS: u32 = 64;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: bench\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 28\
    \r\n\r\n{\"answer\": 42, \"ok\": true }\n";

/// Does the work of `gpool-lab __http PORT`: answers every request alike.
///
/// # Errors
/// The port is taken.
pub fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    for stream in listener.incoming().flatten() {
        thread::spawn(move || answer(stream));
    }
    Ok(())
}

fn answer(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line == b"\r\n" {
            writer.write_all(ANSWER)?;
        }
    }
}

/// A connection that is used again.
struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends a request and reads the answer.
    fn ask(&mut self) -> io::Result<()> {
        self.reader.get_mut().write_all(REQUEST)?;
        let mut line = String::new();
        let (mut is_good, mut length) = (false, 0);
        loop {
            line.clear();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            is_good |= line.starts_with("HTTP/1.1 200");
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        let is_whole = ANSWER.ends_with(&body) && !body.is_empty();
        if is_good && is_whole { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// Asks once, on a new connection.
///
/// # Errors
/// There is no proper answer.
pub fn ask_once(port: u16) -> io::Result<()> {
    Client::connect(port)?.ask()
}

/// A steady load.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    /// Port of the service.
    pub port: u16,
    /// Requests in a second, over all connections.
    pub rate: u32,
    /// How long.
    pub span: Duration,
}

/// The answers to a load.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Time of each answer in milliseconds.
    pub ms: Vec<f64>,
    pub n_answers: u32,
    pub n_failed: u32,
}

/// Asks at a steady rate: each connection in its turn, whether or not earlier answers are late.
///
/// # Errors
/// A connection can't be made.
pub fn steady(load: Steady) -> Result<Answers> {
    let pause = Duration::from_secs(1) * CLIENTS / load.rate;
    let start = Instant::now() + Duration::from_millis(50);
    let client = |number: u32| {
        let mut answers = Answers::default();
        let Ok(mut client) = Client::connect(load.port) else { return None };
        let mut due = start + pause * number / CLIENTS;
        while due < start + load.span {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let sent = Instant::now();
            match client.ask() {
                Ok(()) => answers.ms.push(sent.elapsed().as_secs_f64() * 1000.0),
                Err(_) => {
                    answers.n_failed += 1;
                    client = Client::connect(load.port).ok()?;
                }
            }
            due += pause;
        }
        Some(answers)
    };
    let mut sum = Answers::default();
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        for client in clients {
            let answers = client.join().ok().flatten();
            let answers = answers.ok_or_else(|| failed("a client could not connect"))?;
            sum.ms.extend(answers.ms);
            sum.n_failed += answers.n_failed;
        }
        Ok(())
    })
    .map(|()| sum)
}

/// Asks on one connection until it is over.
pub fn again_and_again(port: u16, is_over: &AtomicBool) -> Answers {
    let mut answers = Answers::default();
    let mut client = Client::connect(port).ok();
    while !is_over.load(Ordering::Relaxed) {
        match client.as_mut().map(Client::ask) {
            Some(Ok(())) => answers.n_answers += 1,
            _ => {
                answers.n_failed += 1;
                client = Client::connect(port).ok();
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    answers
}
