//! `gpool demo`: a cluster of one node in a temporary folder, a mixed load of real processes, a
//! live view until all jobs have ended, and a summary. On a terminal further jobs follow until the
//! user ends it. It uses the API of its server like any
//! client.

mod account;
mod devices;
mod endless;
mod load;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gpool_cli::cluster::{Cluster, Setup};
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::screen::Screen;
use gpool_device::DevicesArg;
use gpool_model::DeviceState;

#[derive(Debug, Clone, Default)]
pub struct DemoOptions {
    /// Keep the cluster and its files.
    pub keep: bool,
    /// Devices to use instead of this machine's.
    pub devices: Option<String>,
}

/// Runs the demo.
pub fn run(options: &DemoOptions, screen: &Screen) -> Result {
    let devices = devices::choose_devices(options.devices.as_deref())?;
    screen.data(&format!("gpool demo: {}\n", devices.words))?;
    let interrupted = watch_signals()?;
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(errors::DEMO_FAILED, format!("can't find this program: {error}"))
    })?;
    let are_named = DevicesArg::names_nodes(&devices.argument);
    let (devices, listen) = (devices.argument, None);
    let cluster = Cluster::start(Setup { program, devices, are_named, listen })?;
    screen.data(&format!(
        "state  {}\nsocket {}\n\n",
        cluster.folder().display(),
        cluster.socket().display()
    ))?;
    let login = cluster.client().login();
    if let Ok(login) = login {
        screen
            .data(&format!("Watch it in a browser (the link works once):\n  {}\n\n", login.url))?;
    }
    let outcome = play(&cluster, options.keep, &interrupted, screen);
    if options.keep {
        let folder = cluster.keep();
        let socket = folder.join("api.sock");
        screen.data(&format!(
            "\nThe cluster is still running. Try:  export GPOOL_SOCKET={0}\n            gpool \
             queue --state all; gpool gpus; gpool down\nThen remove {1}.\n",
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

/// Becomes true when the user interrupts the demo; it then cleans up as at the end.
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

fn play(cluster: &Cluster, is_kept: bool, interrupted: &AtomicBool, screen: &Screen) -> Result<()> {
    let client = cluster.client();
    let gpus = client.gpus().map_err(Failure::from)?.items;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    // GPUs in use stay untouched; a job that asked for them too would wait.
    let n_free = count(gpus.iter().filter(|gpu| gpu.state == DeviceState::Free).count());
    let n_devices = count(gpus.len());
    if n_free < n_devices {
        screen.data(&format!("{n_free} of {n_devices} GPUs are free; the demo uses those\n"))?;
    }
    let submitted = load::submit(client, n_free, n_devices, screen)?;
    let ids = load::ids(&submitted);
    let histories = watch::until_ended(client, &ids, interrupted, screen)?;
    account::write(client, &submitted, &histories, screen)?;
    match is_kept {
        true => Ok(()),
        false => endless::until_enter(client, n_free, interrupted, screen),
    }
}
