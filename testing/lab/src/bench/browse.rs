//! A viewer of the dashboard as far as the server sees one: it signs in, loads pages, and follows
//! the stream of changes. It writes HTTP itself, since the work of a browser is not measured here.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};

use super::failed;

/// The least time between two loads, as in `live.js`.
const LEAST: Duration = Duration::from_secs(1);
/// The time after which a viewer loads the page without a message.
const MOST: Duration = Duration::from_secs(10);

/// A signed-in browser.
#[derive(Debug, Clone)]
pub struct Browser {
    port: u16,
    host: String,
    cookie: String,
}

/// A loaded page.
#[derive(Debug)]
pub struct Loaded {
    /// Its contents.
    pub page: String,
    /// Time from the request to the last byte, in milliseconds.
    pub ms: f64,
}

impl Browser {
    /// Signs in.
    ///
    /// # Errors
    /// The server has no dashboard, or refuses.
    pub fn sign_in(cluster: &Cluster) -> Result<Self> {
        let url = cluster.client().login().map_err(Failure::from)?.url;
        let parts = url.strip_prefix("http://").and_then(|rest| rest.split_once('/'));
        let (place, path) = parts.ok_or_else(|| failed(format!("no link: {url}")))?;
        let (host, port) = place.rsplit_once(':').unwrap_or((place, "80"));
        let port = port.parse().map_err(|_| failed(format!("no port: {url}")))?;
        let mut browser = Self { port, host: host.to_owned(), cookie: String::new() };
        let (_, head, _) = browser.get(&format!("/{path}")).map_err(lost)?;
        let cookie = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("set-cookie").then(|| value.trim().to_owned())
        });
        let cookie = cookie.ok_or_else(|| failed("the link did not sign in"))?;
        browser.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(browser)
    }

    /// Loads a page.
    ///
    /// # Errors
    /// The connection is lost, or the answer is no page.
    pub fn load(&self, path: &str) -> Result<Loaded> {
        let began = Instant::now();
        let (status, _, page) = self.get(path).map_err(lost)?;
        let ms = began.elapsed().as_secs_f64() * 1000.0;
        match status {
            200 => Ok(Loaded { page, ms }),
            _ => Err(failed(format!("{path} answered {status}"))),
        }
    }

    /// Follows a page until `line` is closed: loads it after changes. Returns the time of each load
    /// in milliseconds.
    ///
    /// # Errors
    /// The connection is lost, or an answer is no page.
    pub fn follow(&self, path: &str, stream: BufReader<TcpStream>) -> Result<Vec<f64>> {
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            scope.spawn(move || read_messages(stream, &tell));
            let mut times = Vec::new();
            while is_next(&told) {
                times.push(self.load(path)?.ms);
            }
            Ok(times)
        })
    }

    /// Opens the stream of changes.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn stream(&self) -> Result<(BufReader<TcpStream>, Line)> {
        let stream = self.send("/events", "keep-alive").map_err(lost)?;
        let line = stream.try_clone().map_err(lost)?;
        Ok((BufReader::new(stream), Line(line)))
    }

    fn send(&self, path: &str, connection: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let Self { host, port, cookie, .. } = self;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: {connection}\r\n\
             cookie: {cookie}\r\n\r\n"
        );
        stream.write_all(request.as_bytes())?;
        Ok(stream)
    }

    /// The status, the head and the body of an answer.
    fn get(&self, path: &str) -> std::io::Result<(u16, String, String)> {
        let mut answer = String::new();
        self.send(path, "close")?.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        Ok((status, head.to_owned(), body.to_owned()))
    }
}

/// The connection of a stream, for another thread to close.
pub struct Line(TcpStream);

impl Drop for Line {
    fn drop(&mut self) {
        // The server may have closed it.
        drop(self.0.shutdown(Shutdown::Both));
    }
}

fn read_messages(stream: BufReader<TcpStream>, tell: &Sender<()>) {
    for line in stream.lines() {
        match line {
            Ok(line) if line.starts_with("data:") => drop(tell.send(())),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Waits until the page is due again; `false` if the stream is closed.
fn is_next(told: &Receiver<()>) -> bool {
    use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
    let began = Instant::now();
    if told.recv_timeout(MOST) == Err(RecvTimeoutError::Disconnected) {
        return false;
    }
    std::thread::sleep(LEAST.saturating_sub(began.elapsed()));
    loop {
        match told.try_recv() {
            Ok(()) => {}
            Err(TryRecvError::Empty) => return true,
            Err(TryRecvError::Disconnected) => return false,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of map_err")]
fn lost(error: std::io::Error) -> Failure {
    failed(format!("the dashboard: {error}"))
}
