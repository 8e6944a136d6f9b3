//! `--watch` on a terminal: the list fills it, below a line with the time, until the user leaves by
//! `q` or Ctrl-C.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gpool_model::Millis;

use super::simulate_watch::keys::{Key, keys};
use crate::console::full::FullScreen;
use crate::exit::Exit;
use crate::failure::Result;
use crate::render::clock;
use crate::render::style::Style;
use crate::screen::is_dumb;
use crate::session::Session;

/// How soon a window that was resized is drawn anew.
const RESIZED: Duration = Duration::from_millis(250);
/// Columns of a terminal that does not say.
const COLUMNS: usize = 80;

/// Shows what `read` gives, as `text` writes it for so many columns, and reads it again as often as
/// asked. If the server goes away the list stays as it was, and the first line says so.
///
/// # Errors
/// What `read` and `text` meet, or the terminal can't be written.
pub fn on_terminal<L>(
    every: Millis,
    session: &Session,
    mut read: impl FnMut() -> Result<L>,
    text: impl Fn(&L, usize) -> Result<String>,
) -> Result {
    // Before the terminal is filled, so that it keeps what went wrong.
    let mut last = read()?;
    let is_left = Arc::new(AtomicBool::new(true));
    let has_keys = std::io::stdin().is_terminal() && !is_dumb();
    let mut full = has_keys.then(|| FullScreen::enter(&is_left)).transpose()?;
    let mut head = Head { every, read_at: clock::now(), is_away: false };
    loop {
        let until = Instant::now() + Duration::from_millis(every.get());
        match &mut full {
            Some(full) => {
                if has_left(full, until, |full| draw(full, &head, &last, &text, session))? {
                    break;
                }
            }
            None => {
                let columns = session.screen.width.unwrap_or(COLUMNS);
                let page = format!("{}\n{}", head.line(false, session), text(&last, columns)?);
                session.screen.data(&redrawn(&page, session.screen.height))?;
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
        }
        match read() {
            Ok(listing) => {
                last = listing;
                head = Head { read_at: clock::now(), is_away: false, ..head };
            }
            Err(failure) if failure.exit() == Exit::UNREACHABLE => head.is_away = true,
            Err(failure) => return Err(failure),
        }
    }
    let ending = full.as_ref().and_then(FullScreen::ending);
    drop(full);
    if let Some(signal) = ending {
        // The terminal is as it was: now the signal may do what it does.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    Ok(Exit::OK)
}

/// Draws until that time comes, or the user leaves: `true`.
fn has_left(
    full: &mut FullScreen,
    until: Instant,
    mut draw: impl FnMut(&mut FullScreen) -> Result<()>,
) -> Result<bool> {
    loop {
        draw(full)?;
        let left = until.saturating_duration_since(Instant::now());
        match full.typed(left.min(RESIZED)) {
            Ok(typed) if keys(&typed).contains(&Key::End) => return Ok(true),
            Ok(_) if Instant::now() >= until => return Ok(false),
            Ok(_) => {}
            Err(_) => return Ok(true),
        }
    }
}

fn draw<L>(
    full: &mut FullScreen,
    head: &Head,
    last: &L,
    text: impl Fn(&L, usize) -> Result<String>,
    session: &Session,
) -> Result<()> {
    let (columns, rows) = full.size();
    let page = text(last, columns)?;
    let head = std::iter::once(head.line(true, session));
    let lines = head.chain(page.lines().map(str::to_owned)).take(rows);
    full.show_lines(&session.screen, lines.collect())
}

/// The line above the list.
#[derive(Debug, Clone, Copy)]
struct Head {
    every: Millis,
    /// When the list was read that is shown.
    read_at: gpool_wire::Time,
    is_away: bool,
}

impl Head {
    fn line(&self, has_keys: bool, session: &Session) -> String {
        let read_at = session.screen.clock.second(self.read_at, clock::now());
        let leave = if has_keys { "q leaves" } else { "Ctrl-C leaves" };
        let head = format!("{read_at} · every {} · {leave}", self.every);
        if self.is_away {
            let away = "no server answers, jobs that run go on";
            return format!("{head} · {}", Style::Warn.paint(away, session.screen.colors));
        }
        head
    }
}

/// The text over what stood there: each line cleared to its end, and all below it. Lines that do
/// not fit are left out, so that nothing scrolls.
fn redrawn(text: &str, height: Option<usize>) -> String {
    let n_lines = height.map_or(usize::MAX, |height| height.saturating_sub(1));
    let lines = text.lines().take(n_lines).map(|line| format!("{line}\u{1b}[K\n"));
    format!("\u{1b}[H{}\u{1b}[J", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_redrawn_without_scrolling() {
        assert_eq!(redrawn("a\nb\nc\n", Some(3)), "\u{1b}[Ha\u{1b}[K\nb\u{1b}[K\n\u{1b}[J");
        assert_eq!(redrawn("a\n", None), "\u{1b}[Ha\u{1b}[K\n\u{1b}[J");
    }
}
