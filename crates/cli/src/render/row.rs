//! A line of a full-screen picture: pieces of text, each with its own color, cut to the width of
//! the screen.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

use super::style::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Style(Style),
    /// One of twelve foreground colors, by number.
    Hue(usize),
    /// One of twelve background colors, by number.
    On(usize),
}

/// Terminal colors, the most distinct first; bright ones and blue come last.
const HUES: [u8; 12] = [32, 33, 36, 35, 31, 34, 92, 93, 96, 95, 91, 94];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StyledLine {
    // Invariant: neighbours have different colors.
    pieces: Vec<(Ink, String)>,
}

impl StyledLine {
    pub fn push(&mut self, ink: Ink, text: &str) {
        match self.pieces.last_mut() {
            Some((last, before)) if *last == ink => before.push_str(text),
            Some(_) | None => self.pieces.push((ink, text.to_owned())),
        }
    }

    pub fn plain(&mut self, text: &str) {
        self.push(Ink::Style(Style::Plain), text);
    }

    pub fn dim(&mut self, text: &str) {
        self.push(Ink::Style(Style::Dim), text);
    }

    /// Adds all pieces of another line.
    pub fn append(&mut self, other: Self) {
        for (ink, text) in other.pieces {
            self.push(ink, &text);
        }
    }

    /// Its width in columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.pieces.iter().flat_map(|(_, text)| text.chars()).map(width).sum()
    }

    /// The line, cut to this width.
    #[must_use]
    pub fn text(&self, columns: usize, colors: bool) -> String {
        let mut out = String::new();
        let mut room = columns;
        for (ink, text) in &self.pieces {
            let mut kept = String::new();
            let mut is_cut = false;
            for letter in text.chars() {
                let Some(left) = room.checked_sub(width(letter)) else {
                    is_cut = true;
                    break;
                };
                room = left;
                kept.push(letter);
            }
            ink.paint(&kept, colors, &mut out);
            if is_cut {
                break;
            }
        }
        out
    }
}

fn width(letter: char) -> usize {
    letter.width().unwrap_or(0)
}

impl Ink {
    fn paint(self, text: &str, colors: bool, out: &mut String) {
        let hue = |number: usize| HUES[number % HUES.len()];
        // Writing to a string can't fail.
        let _ = match self {
            Self::Hue(number) if colors => write!(out, "\x1b[{}m{text}\x1b[0m", hue(number)),
            Self::On(number) if colors => write!(out, "\x1b[7;{}m{text}\x1b[0m", hue(number)),
            Self::Style(style) => out.write_str(&style.paint(text, colors)),
            Self::Hue(_) | Self::On(_) => out.write_str(text),
        };
    }
}
