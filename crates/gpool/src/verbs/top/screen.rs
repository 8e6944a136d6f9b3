//! The loop of the full-screen view: keys and news in, pictures out.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use gpool_cli::failure::Result;
use gpool_cli::render::clock;
use gpool_cli::screen::Screen;
use gpool_cli::terminal::full::FullScreen;
use gpool_cli::watch::leave;
use gpool_model::job::JobState;
use gpool_top::data::News;
use gpool_top::input::{Key, TopCommand};
use gpool_top::{Setup, Top, lines};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

/// Interval at which news, window size and signals are checked.
const LOOK: Duration = Duration::from_millis(100);

/// A wish of the view to the thread that reads the data.
#[derive(Debug)]
pub enum Wish {
    Ask(TopCommand),
    /// The data of another job.
    Look(Option<Looked>),
    /// Jobs have changed.
    Changed,
}

/// A job that the view shows in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    pub id: String,
    pub state: JobState,
}

/// Shows the view until the user leaves.
pub fn show(setup: Setup, screen: &Screen, ask: &Sender<Wish>, told: &Receiver<News>) -> Result {
    let mut full = FullScreen::enter()?;
    let mut top = Top::new(setup);
    let mut looked = None;
    let mut shown = None;
    loop {
        let now = clock::now();
        let mut is_new = false;
        for news in told.try_iter() {
            top.take(news, now);
            is_new = true;
        }
        let size = full.size();
        let second = now.0.get() / 1000;
        if is_new || shown != Some((size, second)) {
            shown = Some((size, second));
            full.show_lines(screen, picture(&mut top, size))?;
        }
        let wanted = top.wants().map(|job| Looked { id: job.id.clone(), state: job.state });
        if wanted != looked {
            looked.clone_from(&wanted);
            // The other thread lives as long as this one.
            let _ = ask.send(Wish::Look(wanted));
        }
        if full.ending().is_some() {
            return leave(full, true);
        }
        // A terminal that has gone ends the view too.
        match event::poll(LOOK).and_then(|is_there| is_there.then(event::read).transpose()) {
            Ok(None) => {}
            Ok(Some(event)) => {
                shown = None;
                match key(&event).and_then(|key| top.key(key)) {
                    None => {}
                    Some(TopCommand::Quit) => return leave(full, true),
                    Some(wish) => {
                        let _ = ask.send(Wish::Ask(wish));
                    }
                }
            }
            Err(_) => return leave(full, true),
        }
    }
}

fn picture(top: &mut Top, (columns, rows): (usize, usize)) -> Vec<String> {
    let side = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let mut buffer = Buffer::empty(Rect::new(0, 0, side(columns), side(rows)));
    top.draw(&mut buffer, clock::now());
    lines(&buffer)
}

/// The key of an event; `None` for other events and for keys without a meaning.
fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return None;
    };
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        _ if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => return None,
        KeyCode::Char(letter) => Key::Char(*letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
