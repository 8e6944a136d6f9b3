//! The context of a verb: its output and its connection to the server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use gpool_client::socket::{Surroundings, stranger_on};
use gpool_client::{Cause, Client, ServerPresence, Silence};

use crate::args::Global;
use crate::caller;
use crate::failure::{Failure, Result};
use crate::render::clock;
use crate::render::list::Appearance;
use crate::render::view::View;
use crate::screen::Screen;
use crate::terminal::raw;

/// Time limit of a listening verb for the return of the server. Jobs go on meanwhile, and the
/// user can leave at any time.
pub const LISTEN_RETRIES: Duration = Duration::from_secs(24 * 3600);

/// The note when a server goes away and the verb waits for it.
pub const AWAY: &str = "note: no server answers; running jobs continue. Waiting for it: gpool up \
                        starts it, Ctrl-C quits";
/// The note when it is back.
pub const BACK: &str = "note: the server answers again";

/// The note for a server that is away, silent, slow or back.
fn presence_note(presence: &ServerPresence) -> Option<String> {
    Some(match presence {
        ServerPresence::Away => AWAY.to_owned(),
        ServerPresence::Back => BACK.to_owned(),
        ServerPresence::Silent(silence) => format!(
            "note: {silence}; running jobs continue. Waiting for an answer: {}, Ctrl-C quits",
            way_out(silence)
        ),
        ServerPresence::Slow(silent_for, alive) => {
            let seconds = silent_for.as_secs();
            let why = match (alive.store_ms / 1000, alive.core_ms / 1000) {
                (0, 0) => String::new(),
                (0, core) => format!(" (its main thread has been busy for {core} s)"),
                (disk, _) => format!(" (its disk has not finished a write for {disk} s)"),
            };
            format!(
                "note: no answer for {seconds} s; the server is alive{why}. Waiting; Ctrl-C quits"
            )
        }
    })
}

/// Writes a note, unless the terminal is raw: then the full-screen view writes its own.
fn note_unless_raw(screen: &Screen, text: &str) {
    if !raw::is_on() {
        screen.note(text);
    }
}

/// How to continue a server that does not answer.
#[must_use]
pub fn way_out(silence: &Silence) -> String {
    match (silence.cause, silence.pid) {
        (Cause::Stopped, Some(pid)) => format!("kill -CONT {pid} continues it"),
        _ => "gpool down stops it".to_owned(),
    }
}

/// Runs a command line of gpool, without the name of the program.
pub type Verbs = fn(&[String], &Session) -> Result;

/// One run of one verb.
pub struct Session {
    pub screen: Screen,
    pub global: Global,
    // Looked up on first use: it may need a name service.
    me: OnceLock<String>,
    // The program passes its verbs here, since this crate can't depend on them.
    verbs: Option<Verbs>,
}

impl From<gpool_client::Error> for Failure {
    fn from(error: gpool_client::Error) -> Self {
        Self::from(error.problem())
    }
}

impl Session {
    #[must_use]
    pub fn new(screen: Screen, global: Global) -> Self {
        let session = Self::of(screen, global);
        caller::set_remote(session.is_remote());
        session
    }

    fn of(screen: Screen, global: Global) -> Self {
        Self { screen, global, me: OnceLock::new(), verbs: None }
    }

    /// Adds the verbs of gpool, for commands that run one.
    #[must_use]
    pub fn with_verbs(self, verbs: Verbs) -> Self {
        Self { verbs: Some(verbs), ..self }
    }

    /// Runs a command line of gpool.
    pub fn verb(&self, words: &[String]) -> Result {
        match self.verbs {
            Some(verbs) => verbs(words, self),
            None => Err(Failure::new(crate::errors::INTERNAL, "this program has no verbs")),
        }
    }

    /// A client of the server, if one answers.
    ///
    /// # Errors
    /// No server answers; the failure lists the sockets.
    pub fn client(&self) -> Result<Client> {
        let screen = self.screen.clone();
        let note = move |presence| {
            if let Some(text) = presence_note(&presence) {
                note_unless_raw(&screen, &text);
            }
        };
        let Global { server, context, .. } = &self.global;
        let client = Client::find(server.as_deref(), context.as_deref())?.noting(note);
        if self.global.verbose > 0 {
            let socket = client.socket().map(|socket| socket.display().to_string());
            let address = client.address().map(ToString::to_string);
            self.screen.note(&format!("server  {}", socket.or(address).unwrap_or_default()));
        }
        let uid = rustix::process::geteuid().as_raw();
        if let Some(stranger) = client.socket().and_then(|socket| stranger_on(socket, uid)) {
            self.screen.warn(&format!(
                "user {} created {}, and can read requests to that server",
                stranger.uid,
                stranger.path.display()
            ));
        }
        Ok(client)
    }

    /// Whether the server is on the network; false if that can't be found out.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        let mut surroundings = Surroundings::of_this_process();
        surroundings.context_flag.clone_from(&self.global.context);
        let place = surroundings.place(self.global.server.as_deref());
        matches!(place, Ok(gpool_client::ServerLocation::Remote(_)))
    }

    /// Refuses a command that needs the machine of the server, if the server is on the network.
    pub fn refuse_remote(&self, command: &str) -> Result<()> {
        if !self.is_remote() {
            return Ok(());
        }
        let what = format!("gpool {command} works only on the machine of the server");
        Err(Failure::new(gpool_wire::catalogue::NOT_LOCAL, what)
            .why("the server in use is on the network")
            .tip(format!("gpool {command} --context local   (for the server of this machine)")))
    }

    /// A client that waits for a server that goes away, and prints a note if that takes longer than
    /// a restart.
    pub fn listener(&self) -> Result<Client> {
        Ok(self.patient(self.client()?))
    }

    /// Makes a client wait for a server that goes away.
    #[must_use]
    pub fn patient(&self, client: Client) -> Client {
        let screen = self.screen.clone();
        self.patient_saying(client, move |text| note_unless_raw(&screen, text))
    }

    /// Does the same, with another function for notes.
    #[must_use]
    pub fn patient_saying(
        &self,
        client: Client,
        say: impl Fn(&str) + Send + Sync + 'static,
    ) -> Client {
        let tell = move |presence| {
            if let Some(text) = presence_note(&presence) {
                say(&text);
            }
        };
        client.with_retries(LISTEN_RETRIES).telling(tell)
    }

    /// The user's name in the system's database; over the network, that on the server.
    #[must_use]
    pub fn me(&self) -> &str {
        self.me.get_or_init(|| {
            let asked = || self.client().ok()?.me().ok();
            let me = if caller::is_remote() { asked() } else { None };
            me.and_then(|me| me.user.or(me.network_user)).unwrap_or_else(user_name)
        })
    }

    /// The context for rendering, with the current time.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { clock: &self.screen.clock, now: clock::now(), me: self.me() }
    }

    /// The appearance of lists, with the text below.
    #[must_use]
    pub fn look<'a>(&'a self, footer: &'a str) -> Appearance<'a> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        let (width, colors) = (self.screen.width, self.screen.colors);
        let view = self.view();
        Appearance { view, width, colors, footer, marked: &NONE, title: "gpool", bars: None }
    }
}

/// The socket of a server that this user starts.
///
/// # Errors
/// Its path is too long, or not valid for a socket.
pub fn own_socket(named: Option<&str>) -> Result<PathBuf> {
    let surroundings = Surroundings::of_this_process();
    match surroundings.local_place(named)? {
        gpool_client::ServerLocation::Named(path) => Ok(path),
        gpool_client::ServerLocation::Usual { .. } | gpool_client::ServerLocation::Remote(_) => {
            Ok(surroundings.own_socket())
        }
    }
}

/// The state folder of this user's server: the named one, `GPOOL_STATE_DIR`, or the usual one.
///
/// # Errors
/// There is no home for it.
pub fn state_dir(named: Option<&str>) -> Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(named) = named {
        return absolute(Path::new(&named));
    }
    if let Some(named) = variable("GPOOL_STATE_DIR") {
        return absolute(Path::new(&named));
    }
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/gpool"));
    }
    let state_home = variable("XDG_STATE_HOME").map(PathBuf::from);
    match state_home.filter(|path| path.is_absolute()) {
        Some(path) => Ok(path.join("gpool")),
        None => match variable("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(".local/state/gpool")),
            None => Err(Failure::new(
                crate::errors::BAD_DIRECTORY,
                "there is no home folder for the state",
            )
            .why("GPOOL_STATE_DIR, XDG_STATE_HOME and HOME are not set")
            .tip("gpool up --state-dir FOLDER")),
        },
    }
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        let what = format!("can't use {} as state folder: {error}", path.display());
        Failure::new(crate::errors::BAD_DIRECTORY, what)
    })
}

/// The name of the user of this process, by its user id, since environment variables can have any
/// value.
pub(crate) fn user_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    match gpool_sys::user::account(uid) {
        Some(account) => String::from_utf8_lossy(&account.name).into_owned(),
        None => uid.to_string(),
    }
}
