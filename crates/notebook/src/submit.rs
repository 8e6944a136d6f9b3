//! Submits a notebook, and waits until it answers.

use clap::Args;
use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::caller;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::hand_in::{dry_run, hand_in, note_terms, note_wait, say};
use gpool_cli::request::{self, Request};
use gpool_cli::session::Session;
use gpool_wire::field::heading;

use crate::address::Address;
use crate::program::{PORT, Program, SOCKET};
use crate::{host, open};

const HEADING: &str = "Notebook";

/// The request for a notebook.
#[derive(Debug, Clone, Args)]
pub struct NotebookFlags {
    #[command(flatten)]
    flags: JobFlags,
    /// Path that answers once the program is ready, e.g. /healthz (default: the port is open)
    #[arg(long, value_name = "PATH", help_heading = HEADING)]
    ready: Option<String>,
    /// Check the request without submitting it
    #[arg(long, help_heading = heading::SUBMISSION)]
    dry_run: bool,
    /// Command of a web server, e.g. tensorboard --port {port}
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&'static str>)]
    command: Vec<String>,
}

/// The beginning of the command in a container, which has no `gpool`: it names the address, and
/// becomes the web server. The address is its first argument.
const IN_CONTAINER: &str = "printf '%s\\n' \"$1\"; shift; exec \"$@\"";
/// The same for Jupyter and its socket in the folder of the run. The first argument is a program in
/// Python, which Jupyter's image has: it says when the server answers, and when it is busy.
const JUPYTER_IN_CONTAINER: &str = "s=$GPOOL_DIR/notebook.sock w=$1
shift
if p=$(command -v python3 || command -v python); then
    \"$p\" -c \"$w\" \"$s\" &
else
    printf '{\"gpool\": {\"notebook\": {\"socket\": \"%s\"}}}\\n' \"$s\"
fi
exec \"$@\" --ServerApp.sock=\"$s\"";
const WATCH: &str = include_str!("watch.py");

/// Runs the verb.
pub(crate) fn run(args: NotebookFlags, session: &Session) -> Result {
    let has_image = args.flags.request.0.image.is_some();
    let (words, _) = match args.command.is_empty() {
        true => (Vec::new(), None),
        false => request::command(&args.command),
    };
    check(&words, has_image)?;
    if has_image && args.ready.is_some() {
        return Err(Failure::new(errors::USAGE, "--ready is for web servers outside containers")
            .why("in a container, gpool waits until Jupyter answers, or the port is open"));
    }
    let words = match has_image {
        true => container_words(&words),
        false => host_words(&words, args.ready.as_deref()),
    };
    let mut request = request::of_command(args.flags, &words)?;
    request.job.kind.get_or_insert_with(|| "notebook".to_owned());
    request.job.name.get_or_insert_with(|| "notebook".to_owned());
    let client = session.client()?;
    request.resolve(&client, session)?;
    submit(&client, &request, args.dry_run, session)
}

/// Refuses a command that can't be reached, before it is submitted.
fn check(words: &[String], has_image: bool) -> Result<()> {
    let refused = |what: String| {
        Failure::new(errors::USAGE, what).tip("gpool notebook -- tensorboard --port {port}")
    };
    if words.iter().any(|word| word.contains(SOCKET)) && has_image {
        return Err(refused(format!("a command in a container can have {PORT}, not {SOCKET}")));
    }
    if words.is_empty() {
        return Ok(());
    }
    let program = Program::of(words, "", false).map_err(refused)?;
    match has_image && !program.is_jupyter && !program.needs_port() {
        true => Err(refused(format!("a command in a container needs {PORT}"))),
        false => Ok(()),
    }
}

fn host_words(command: &[String], ready: Option<&str>) -> Vec<String> {
    // On another machine gpool is in PATH.
    let own = std::env::current_exe().ok().filter(|_| !caller::is_remote());
    let own = own.map_or_else(|| "gpool".to_owned(), |own| own.display().to_string());
    let mut words = vec![own, host::VERB.to_owned()];
    words.extend(ready.into_iter().flat_map(|path| ["--ready".to_owned(), path.to_owned()]));
    words.push("--".to_owned());
    words.extend_from_slice(command);
    words
}

fn container_words(command: &[String]) -> Vec<String> {
    let shell = |script: &str| ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
    if command.iter().any(|word| word.contains(PORT)) {
        // The port is chosen before the node is known; the dynamic ports begin at 32768.
        let random = u16::from_str_radix(&gpool_client::new_key()[..4], 16).unwrap_or_default();
        let port = 20_000 + random % 12_000;
        let mut words = shell(IN_CONTAINER);
        words.push(Address::Port(port).line());
        words.extend(command.iter().map(|word| word.replace(PORT, &port.to_string())));
        return words;
    }
    let jupyter = ["jupyter", "lab"].map(str::to_owned).to_vec();
    let command = if command.is_empty() { &jupyter } else { command };
    // Its user in the container may be root.
    let program = Program::of(command, "", true).map(|program| program.words).unwrap_or_default();
    let mut words = shell(JUPYTER_IN_CONTAINER);
    words.push(WATCH.to_owned());
    words.extend(program.into_iter().filter(|word| !word.contains(SOCKET)));
    words
}

fn submit(
    client: &gpool_client::Client,
    request: &Request,
    is_dry_run: bool,
    session: &Session,
) -> Result {
    if !session.screen.quiet {
        say(request, session);
    }
    if is_dry_run {
        return dry_run(client, &request.job, session);
    }
    let job = hand_in(client, request)?;
    let id = &job.id;
    if !session.screen.quiet {
        session.screen.note(&format!("note: job {id}"));
        note_terms(&job, session);
        note_wait(client, &job, session);
    }
    match open::address(&session.patient(client.clone()), id, true)? {
        Some(address) => open::print(client, id, &address, session),
        None => {
            let state = client.job(id)?.state;
            let what = format!("notebook {id} has ended before it answered: {}", state.as_str());
            Err(Failure::new(gpool_wire::catalogue::INVALID, what)
                .tip(format!("gpool logs --stderr {id}"))
                .tip(format!("gpool show {id}")))
        }
    }
}
