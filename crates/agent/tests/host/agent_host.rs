//! An agent in its own process, for tests that kill it: orders come in and reports go out as lines
//! of JSON, blobs are files. With the nursery's argument it runs a nursery.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

use gpool_agent::{Agent, AgentConfig};
use gpool_device::DevicesArg;
use gpool_link::{Connection, ResultPart, SecretQuery, ServerInbox, local};
use gpool_model::id::{NodeName, TaskId};
use gpool_model::job::BlobId;
use gpool_model::unit::{Bytes, Millis};
use gpool_protocol::{QuestionId, ToAgent, ToServer};
use gpool_shepherd::nursery;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let first = arguments.next().ok_or("usage: gpool-agent-host STATE DEVICES [key=value]…")?;
    if first == nursery::ARGUMENT {
        nursery::main();
    }
    if first == gpool_checkpoint::ARGUMENT {
        return match gpool_checkpoint::main(arguments.next().as_deref()) {
            0 => Ok(()),
            code => Err(format!("exit code {code}").into()),
        };
    }
    let state = PathBuf::from(first);
    let node = NodeName::new("node");
    let devices = arguments.next().unwrap_or_else(|| "none".to_owned());
    let asked = DevicesArg::parse(&devices)?.nodes(&node)?;
    let asked = asked.nodes.first().ok_or("no node")?;
    let devices = asked.devices.open(&node, &state.join("control"));
    let mut config = AgentConfig::new(&state, node)?;
    config.api_socket = Some("/run/gpool/api.sock".to_owned());
    for setting in arguments {
        let (key, value) = setting.split_once('=').ok_or("not key=value")?;
        match key {
            "output_limit" => config.output_limit = Bytes::new(value.parse()?),
            "pids_max" => config.pids_max = Some(value.parse()?),
            "shepherd_exe" => config.shepherd_exe = PathBuf::from(value),
            "isolate_gpus" => config.isolate_gpus = value.parse()?,
            "unmanaged_grace" => config.unmanaged_grace = Millis::new(value.parse()?),
            _ => return Err(format!("no setting {key}").into()),
        }
    }
    let (link, end) = local::link(Arc::new(Printer { blobs: state.join("blobs") }));
    let agent = Agent::start(config, devices, &end)?;
    for line in std::io::stdin().lock().lines() {
        link.send(&ToAgent::Order { to: None, beat: None, order: serde_json::from_str(&line?)? });
    }
    agent.stop();
    Ok(())
}

/// Prints reports.
struct Printer {
    blobs: PathBuf,
}

impl ServerInbox for Printer {
    fn message(&self, message: ToServer) {
        let ToServer::Report(report) = message else { return };
        let line = serde_json::to_string(&report).unwrap_or_else(|error| error.to_string());
        // The test has closed the pipe; the report is repeated after a restart.
        let _ = writeln!(std::io::stdout(), "{line}");
    }

    fn connection(&self, _: QuestionId, _: Connection) {}

    fn blob(&self, id: &BlobId) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.blobs.join(&*id.0))
    }

    fn secret(&self, query: &SecretQuery) -> std::io::Result<Vec<u8>> {
        std::fs::read(self.blobs.join(&query.name))
    }

    fn results(&self, _: TaskId, _: u32, _: &ResultPart) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}
