//! The second process of a notebook's job: it reports to gpool in lines of output, until the web
//! server has ended.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::activity::{Activity, Session};
use crate::address::Address;

/// Pause between two attempts to reach a web server that starts.
const START: Duration = Duration::from_millis(100);
/// Pause between two looks at its kernels.
const LOOK: Duration = Duration::from_secs(2);

/// A web server.
pub(crate) struct Watched {
    pub address: Address,
    /// The path that answers once it is ready; `None` if an open port is enough.
    pub ready: Option<String>,
    pub is_jupyter: bool,
    /// Its process, the parent of this one.
    pub parent: i32,
}

impl Watched {
    /// Reports until the web server has ended.
    pub(crate) fn run(&self) {
        while !self.is_ready() {
            if !self.goes_on() {
                return;
            }
            std::thread::sleep(START);
        }
        say(&self.address.line());
        let (mut activity, begin) = (Activity::default(), Instant::now());
        while self.is_jupyter && self.goes_on() {
            // Without an answer, the last report holds for a while.
            if let Some(sessions) = self.sessions()
                && let Some(is_busy) = activity.look(&sessions, begin.elapsed().as_secs())
            {
                say(&format!("{{\"gpool\": {{\"busy\": {is_busy}}}}}"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Whether the web server has not ended: an orphan gets another parent.
    fn goes_on(&self) -> bool {
        rustix::process::getppid().is_some_and(|it| it.as_raw_nonzero().get() == self.parent)
    }

    fn is_ready(&self) -> bool {
        let path = self.ready.as_deref().or(self.is_jupyter.then_some("/api"));
        match path {
            Some(path) => self.address.get(path).is_ok_and(|(status, _)| status < 500),
            None => self.address.is_open(),
        }
    }

    /// The kernels and terminals of Jupyter. A server may have no terminals.
    fn sessions(&self) -> Option<Vec<Session>> {
        // Otherwise these requests would be activity.
        let get = |path: &str| self.address.get(&format!("{path}?no_track_activity=1")).ok();
        let (status, kernels) = get("/api/kernels")?;
        let mut all: Vec<Session> =
            serde_json::from_slice(&kernels).ok().filter(|_| status == 200)?;
        let terminals = get("/api/terminals").filter(|(status, _)| *status == 200);
        let terminals = terminals.and_then(|(_, body)| serde_json::from_slice(&body).ok());
        all.extend(terminals.unwrap_or_else(Vec::<Session>::new));
        Some(all)
    }
}

/// Writes a line of output at once, so that no other program's line is in its middle.
fn say(line: &str) {
    // Without a reader the job goes on.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    let _ = std::io::stdout().flush();
}
