//! `gpool top`: shows GPUs, processes and jobs on the whole terminal, or once as tables.

mod machine;
mod once;
mod screen;
mod server;

use std::io::IsTerminal as _;
use std::sync::mpsc;

use clap::Args;
use gpool_cli::args::values::interval;
use gpool_cli::failure::Result;
use gpool_cli::screen::{is_dumb, is_without_unicode};
use gpool_cli::session::Session;
use gpool_cli::watch::on_changes;
use gpool_client::Client;
use gpool_model::Millis;
use gpool_top::Setup;

use self::machine::LocalMachine;
use self::screen::Wish;

#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    /// Show this machine without a server: GPUs, processes on them, CPU and memory
    #[arg(long)]
    local: bool,
    /// Print tables once, as without a terminal
    #[arg(long)]
    once: bool,
    /// Time between two readings
    #[arg(long, value_name = "EVERY", default_value = "2s", value_parser = interval)]
    every: Millis,
}

/// A client of a server that answers: an error must stay visible beside a full-screen view.
fn answering(session: &Session) -> Result<Client> {
    let client = session.client()?;
    client.version()?;
    Ok(client)
}

/// Runs the verb.
pub fn run(args: &TopArgs, session: &Session) -> Result {
    let is_full = !args.once
        && !session.global.json
        && session.screen.is_terminal()
        && std::io::stdin().is_terminal()
        && !is_dumb();
    let (ask, asked) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    if args.local {
        let mut machine = LocalMachine::open();
        if !is_full {
            return once::machine(&mut machine, session);
        }
        let every = args.every;
        std::thread::spawn(move || machine.serve(every, &asked, &tell));
    } else {
        let client = answering(session).map_err(|failure| failure.tip("gpool top --local"))?;
        if !is_full {
            return once::cluster(&client, session);
        }
        let events = session.patient_saying(client.clone(), |_| ());
        let (clock, me) = (session.screen.clock.clone(), session.me().to_owned());
        let feed = server::Feed::new(client, clock, me, tell);
        let changed = ask.clone();
        on_changes(events, move || changed.send(Wish::Changed).is_ok());
        let every = args.every;
        std::thread::spawn(move || feed.serve(every, &asked));
    }
    let setup = Setup {
        is_machine: args.local,
        colors: session.screen.colors,
        ascii: session.screen.ascii || is_without_unicode(),
        me: session.me().to_owned(),
        clock: session.screen.clock.clone(),
        every: args.every,
    };
    screen::show(setup, &session.screen, &ask, &told)
}
