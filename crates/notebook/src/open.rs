//! The URL of a notebook: finds its address in the output of the job, and asks the server for a
//! link.

use std::io::{self, Write};
use std::time::Duration;

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::follow;
use gpool_cli::reference::Reference;
use gpool_cli::render::json;
use gpool_cli::resolve;
use gpool_cli::session::Session;
use gpool_client::{Client, Error, LogQuery};
use gpool_wire::catalogue;
use serde_json::json;

use crate::address::Address;

/// Longer lines of output have no address.
const LINE_MAX: usize = 8 << 10;
/// Pause between two attempts to connect to a web server that starts.
const PAUSE: Duration = Duration::from_millis(200);

/// Prints another URL of a notebook.
pub(crate) fn run(job: &Reference, session: &Session) -> Result {
    let client = session.client()?;
    let (id, _) = resolve::one(&client, job, session.me())?;
    match address(&client, &id, false)? {
        Some(address) => print(&client, &id, &address, session),
        None => Err(Failure::new(catalogue::INVALID, format!("job {id} has opened no notebook"))
            .why("it is no job of gpool notebook, or its web server has not answered yet")
            .tip(format!("gpool logs {id}"))
            .tip(format!("gpool forward {id} 8888"))),
    }
}

/// Waits until the web server of a job answers; `None` if the job ends before.
pub(crate) fn address(client: &Client, id: &str, waits: bool) -> Result<Option<Address>> {
    let mut scan = Scan::default();
    let query = LogQuery { follow: waits, ..LogQuery::default() };
    let copied = follow::copy(client, id, &query, &mut scan);
    match scan.found {
        Some(address) => Ok(Some(address)),
        None => copied.map(|()| None),
    }
}

/// Asks for a link and prints it.
pub(crate) fn print(client: &Client, id: &str, address: &Address, session: &Session) -> Result {
    let target = address.target();
    // In a container the address is known before the web server listens.
    loop {
        match client.forward(id, &target) {
            Ok(_) => break,
            Err(Error::Problem(problem))
                if problem.code == catalogue::NOTHING_LISTENS.to_string() =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
    let link = client.link(id, &target)?;
    if session.global.json {
        let answer = json!({"job": id, "url": link.url, "expires_in_s": link.expires_in_s});
        session.screen.data(&json::one(&answer))?;
        return Ok(Exit::OK);
    }
    session.screen.data(&format!("{}\n", link.url))?;
    let minutes = link.expires_in_s / 60;
    session.screen.note(&format!(
        "note: the URL works once, within {minutes} min. Job {id} runs on: gpool notebook open \
         {id}, gpool cancel {id}"
    ));
    Ok(Exit::OK)
}

/// Looks for the line with the address in output.
#[derive(Default)]
struct Scan {
    line: Vec<u8>,
    found: Option<Address>,
}

impl Write for Scan {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte == b'\n' {
                self.found = Address::of_line(&self.line);
                self.line.clear();
            } else if self.line.len() < LINE_MAX {
                self.line.push(*byte);
            }
            if self.found.is_some() {
                // The rest is of no use.
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
