//! A view on a terminal without a terminal.

use gpool_cli::render::clock::Clock;
use gpool_model::Millis;
use gpool_top::data::News;
use gpool_top::input::{Key, TopCommand};
use gpool_top::{Setup, Top};
use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::terminal::Terminal;

use crate::cluster::{self, now};

pub struct Screen {
    pub top: Top,
    terminal: Terminal<TestBackend>,
}

/// Colors, and characters other than ASCII.
pub const FULL: (bool, bool) = (true, false);
pub const ASCII: (bool, bool) = (false, true);

impl Screen {
    pub fn new(columns: u16, lines: u16, (colors, ascii): (bool, bool), is_machine: bool) -> Self {
        let clock = Clock::of(Some("UTC".to_owned()));
        let (me, every) = ("ana".to_owned(), Millis::from_secs(2));
        let setup = Setup { is_machine, colors, ascii, me, clock, every };
        let terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        Self { top: Top::new(setup), terminal }
    }

    /// With the small cluster.
    pub fn of_cluster(columns: u16, lines: u16, how: (bool, bool)) -> Self {
        let mut screen = Self::new(columns, lines, how, false);
        screen.take(cluster::news());
        screen
    }

    pub fn take(&mut self, news: Vec<News>) {
        news.into_iter().for_each(|news| self.top.take(news, now()));
    }

    /// Types letters and names of keys: `j`, `<Tab>`.
    pub fn types(&mut self, keys: &str) -> Vec<TopCommand> {
        let mut asks = Vec::new();
        let mut rest = keys;
        while let Some(letter) = rest.chars().next() {
            let (key, n) = match rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
                Some((name, _)) => (named(name), name.len() + 2),
                None => (Key::Char(letter), letter.len_utf8()),
            };
            asks.extend(self.top.key(key));
            rest = &rest[n..];
        }
        asks
    }

    pub fn picture(&mut self) -> String {
        self.terminal.draw(|frame| self.top.draw(frame.buffer_mut(), now())).unwrap();
        self.terminal.backend().to_string()
    }

    pub fn buffer(&mut self) -> Buffer {
        self.picture();
        self.terminal.backend().buffer().clone()
    }

    pub fn resize(&mut self, columns: u16, lines: u16) {
        self.terminal.backend_mut().resize(columns, lines);
    }
}

fn named(name: &str) -> Key {
    match name {
        "Tab" => Key::Tab,
        "BackTab" => Key::BackTab,
        "Esc" => Key::Escape,
        "Enter" => Key::Enter,
        "Back" => Key::Backspace,
        "End" => Key::End,
        "Home" => Key::Home,
        "PgDn" => Key::PageDown,
        "Ctrl-C" => Key::Interrupt,
        name => panic!("there is no key {name}"),
    }
}
