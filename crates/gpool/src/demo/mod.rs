//! `gpool demo`: a cluster of one node in a temporary folder, a mixed load of real processes, a
//! live view until all have ended, and an account of who got what and why. It speaks to its
//! server as any client does.

mod account;
mod cluster;
mod load;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::screen::Screen;
use gpool_client::Client;
use gpool_model::DeviceState;

pub use cluster::Cluster;

/// What the demo was asked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Leave the cluster and its files there.
    pub keep: bool,
    /// Devices instead of those of this machine.
    pub devices: Option<String>,
}

/// Runs the demo.
///
/// # Errors
/// The cluster can't be started, or a job that should succeed did not.
pub fn run(options: &Options, screen: &Screen) -> Result {
    let devices = cluster::choose_devices(options.devices.as_deref())?;
    screen.data(&format!("gpool demo: {}\n", devices.words))?;
    let interrupted = watch_signals()?;
    let cluster = Cluster::start(&devices.argument)?;
    screen.data(&format!(
        "state  {}\nsocket {}\n\n",
        cluster.folder().display(),
        cluster.socket().display()
    ))?;
    let outcome = play(cluster.client(), &interrupted, screen);
    if options.keep {
        let folder = cluster.keep();
        let socket = folder.join("api.sock");
        screen.data(&format!(
            "\nkept. Try:  export GPOOL_SOCKET={0}\n            \
             gpool queue --state all; gpool gpus; gpool down\nThen remove {1}.\n",
            socket.display(),
            folder.display()
        ))?;
        outcome?;
    } else {
        let outcome = outcome.map(|()| Exit::OK);
        cluster.end()?;
        screen.data("\ncleaned up: the server is stopped and its folder removed.\n")?;
        return outcome;
    }
    Ok(Exit::OK)
}

/// Becomes true when the user wants to leave: then everything is cleaned up as at the end.
fn watch_signals() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).map_err(|error| {
            let what = format!("can't wait for signals: {error}");
            Failure::new(errors::DEMO_FAILED, what)
        })?;
    }
    Ok(interrupted)
}

fn play(client: &Client, interrupted: &AtomicBool, screen: &Screen) -> Result<()> {
    let gpus = client.gpus().map_err(Failure::from)?.items;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    // What others use is left alone, so a job that asked for it as well would wait for them.
    let n_free = count(gpus.iter().filter(|gpu| gpu.state == DeviceState::Free).count());
    let n_devices = count(gpus.len());
    if n_free < n_devices {
        screen.data(&format!("{n_free} of {n_devices} GPUs are free; the demo uses those\n"))?;
    }
    let submitted = load::submit(client, n_free, n_devices, screen)?;
    let seen = watch::until_ended(client, &submitted, interrupted, screen)?;
    account::write(client, &submitted, &seen, screen)
}

/// How long the demo waits for its server and for its jobs before it gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
