//! `--watch` on a terminal: the list fills it, below a line with the time, until the user leaves
//! with `q` or Ctrl-C.

use std::io::IsTerminal as _;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gpool_client::Client;
use gpool_model::Millis;

use crate::args::Global;
use crate::exit::Exit;
use crate::failure::Result;
use crate::render::clock;
use crate::render::style::Style;
use crate::screen::{Screen, is_dumb};
use crate::session::Session;
use crate::terminal::full::FullScreen;
use crate::terminal::keys::asks_to_end;

/// Interval at which keys, window size and answers are checked.
const LOOK: Duration = Duration::from_millis(100);
/// Shortest time between a reading and the next one after a change.
const SOON: Duration = Duration::from_millis(200);
/// Time without an answer after which the first line says so.
const SLOW: Duration = Duration::from_secs(5);
/// Width of a terminal with unknown size.
const COLUMNS: usize = 80;

/// Shows the result of `read` as `text` formats it for a width, and repeats that at the interval.
/// While the server does not answer, the list stays and the first line says so.
pub fn on_terminal<L: Send>(
    every: Millis,
    session: &Session,
    mut read: impl FnMut() -> Result<L> + Send,
    text: impl Fn(&L, usize) -> Result<String>,
) -> Result {
    // Before the full screen, so that an error stays visible.
    let began = Instant::now();
    let first = read()?;
    let took = began.elapsed();
    let view = ListView { session, text, every: Duration::from_millis(every.get()) };
    let head = HeaderLine { every, read_at: clock::now(), is_away: false };
    if !std::io::stdin().is_terminal() || is_dumb() {
        return view.without_keys(first, head, read);
    }
    let (ask, asked) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let changes = changes(session);
    std::thread::scope(|scope| {
        // On another thread: the keys work while the server does not answer.
        scope.spawn(move || while asked.recv().is_ok() && tell.send(read()).is_ok() {});
        let left = view.with_keys(first, head, took, (&ask, &told, &changes));
        // This ends the reading thread.
        drop(ask);
        left
    })
}

/// A message for each event of the server. Without a server there are none.
fn changes(session: &Session) -> mpsc::Receiver<()> {
    let (tell, told) = mpsc::channel();
    let Global { server, context, .. } = &session.global;
    if let Ok(client) = Client::find(server.as_deref(), context.as_deref()) {
        let client = session.patient_saying(client, |_| ());
        on_changes(client, move || tell.send(()).is_ok());
    }
    told
}

/// Calls `tell` after each event of the server, on a thread that ends with this program or when
/// `tell` returns false.
pub fn on_changes(client: Client, mut tell: impl FnMut() -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let Ok(events) = client.events(None) else { return };
        // For changes before the stream began.
        if !tell() {
            return;
        }
        for event in events {
            if event.is_err() || !tell() {
                return;
            }
        }
    });
}

/// The requests for the list, the list, and changes.
type Channels<'c, L> =
    (&'c mpsc::Sender<()>, &'c mpsc::Receiver<Result<L>>, &'c mpsc::Receiver<()>);

struct ListView<'s, T> {
    session: &'s Session,
    text: T,
    every: Duration,
}

impl<T> ListView<'_, T> {
    /// Without a terminal on standard input: redraws the list over the last one.
    fn without_keys<L>(
        &self,
        mut last: L,
        mut head: HeaderLine,
        mut read: impl FnMut() -> Result<L>,
    ) -> Result
    where
        T: Fn(&L, usize) -> Result<String>,
    {
        let screen = &self.session.screen;
        let columns = screen.width.unwrap_or(COLUMNS);
        loop {
            let page = format!("{}\n{}", head.line(false, screen), (self.text)(&last, columns)?);
            screen.data(&redrawn(&page, screen.height))?;
            std::thread::sleep(self.every);
            head.take(read(), &mut last)?;
        }
    }

    /// Runs until the user leaves. `ask` requests the list, `told` delivers it, and `changes` tells
    /// when it is worth reading. `took` is the time of the first reading.
    fn with_keys<L>(
        &self,
        mut last: L,
        mut head: HeaderLine,
        mut took: Duration,
        (ask, told, changes): Channels<'_, L>,
    ) -> Result
    where
        T: Fn(&L, usize) -> Result<String>,
    {
        let mut full = FullScreen::enter()?;
        let mut read_at = Instant::now();
        let mut asked_at: Option<Instant> = None;
        let mut has_changed = false;
        loop {
            if let Ok(answer) = told.try_recv() {
                head.take(answer, &mut last)?;
                took = asked_at.map_or(took, |at| at.elapsed());
                (read_at, asked_at) = (Instant::now(), None);
            }
            has_changed |= changes.try_iter().count() > 0;
            // Many changes must not keep the server busy.
            let pause = SOON.max(took.saturating_mul(4));
            let due = if has_changed { self.every.min(pause) } else { self.every };
            let is_slow = asked_at.is_some_and(|at| at.elapsed() > SLOW);
            let shown = HeaderLine { is_away: head.is_away || is_slow, ..head };
            self.draw(&mut full, shown, &last)?;
            let left = match asked_at {
                None => due.saturating_sub(read_at.elapsed()),
                Some(_) => LOOK,
            };
            if full.typed(left.min(LOOK)).map_or(true, |typed| asks_to_end(&typed)) {
                return leave(full, asked_at.is_some());
            }
            if asked_at.is_none() && read_at.elapsed() >= due {
                has_changed = false;
                // The reading thread lives as long as this function.
                let _ = ask.send(());
                asked_at = Some(Instant::now());
            }
        }
    }

    fn draw<L>(&self, full: &mut FullScreen, head: HeaderLine, last: &L) -> Result<()>
    where
        T: Fn(&L, usize) -> Result<String>,
    {
        let screen = &self.session.screen;
        let (columns, rows) = full.size();
        let page = (self.text)(last, columns)?;
        let lines = std::iter::once(head.line(true, screen));
        let lines = lines.chain(page.lines().map(str::to_owned)).take(rows);
        full.show_lines(screen, lines.collect())
    }
}

/// Restores the terminal; then a signal that ended the view takes its default effect. `is_asked`
/// tells that another thread may wait for an answer of the server.
///
/// # Errors
/// It returns none: the type is that of verbs.
pub fn leave(full: FullScreen, is_asked: bool) -> Result {
    let ending = full.ending();
    drop(full);
    if let Some(signal) = ending {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    if is_asked {
        // The answer may never come, and nothing remains to be written.
        signal_hook::low_level::exit(i32::from(Exit::OK.0));
    }
    Ok(Exit::OK)
}

#[derive(Debug, Clone, Copy)]
struct HeaderLine {
    every: Millis,
    /// When the shown list was read.
    read_at: gpool_wire::Time,
    is_away: bool,
}

impl HeaderLine {
    /// Shows a new answer; without one the list stays unchanged.
    fn take<L>(&mut self, answer: Result<L>, last: &mut L) -> Result<()> {
        match answer {
            Ok(listing) => {
                *last = listing;
                (self.read_at, self.is_away) = (clock::now(), false);
            }
            Err(failure) if failure.exit() == Exit::UNREACHABLE => self.is_away = true,
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn line(&self, has_keys: bool, screen: &Screen) -> String {
        let read_at = screen.clock.second(self.read_at, clock::now());
        let leave = if has_keys { "q leaves" } else { "Ctrl-C leaves" };
        let head = format!("{read_at} · every {} · {leave}", self.every);
        if self.is_away {
            let away = "no server answers; running jobs continue";
            return format!("{head} · {}", Style::Warn.paint(away, screen.colors));
        }
        head
    }
}

/// The text over the last one: each line is cleared to its end, and so is the rest of the screen.
/// Lines that do not fit are left out, so nothing scrolls.
pub fn redrawn(text: &str, height: Option<usize>) -> String {
    let n_lines = height.map_or(usize::MAX, |height| height.saturating_sub(1));
    let lines = text.lines().take(n_lines).map(|line| format!("{line}\u{1b}[K\n"));
    format!("\u{1b}[H{}\u{1b}[J", lines.collect::<String>())
}
