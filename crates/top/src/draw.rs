//! The picture: header, panes, footer and help.

use gpool_cli::render::jobs::counts;
use gpool_cli::render::safe::safe;
use gpool_cli::render::style::Style as Tone;
use gpool_cli::render::table::cut;
use gpool_cli::render::words::count;
use gpool_model::Bytes;
use gpool_wire::Time;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use crate::input::{SIGNALS, VERBS};
use crate::kinds::percent;
use crate::picture::{draw_text, reduce, style};
use crate::state::{Mode, Pane, Top};
use crate::table;

/// Smallest height of a picture with three panes.
const THREE: u16 = 14;
/// Lines of a list with one row: title, head and row.
const LIST: u16 = 3;

impl Top {
    pub fn draw(&mut self, buffer: &mut Buffer, now: Time) {
        let area = buffer.area;
        if area.height == 0 || area.width == 0 {
            return;
        }
        let setup = self.setup.clone();
        let view = Self::view(&setup, now);
        let line = |y| Rect { y, height: 1, ..area };
        self.draw_header(buffer, line(area.y), now);
        let body = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
        if self.mode == Mode::Help {
            self.draw_help(buffer, body);
        } else {
            let detail = self.detail(&view);
            for (pane, place) in self.places(body) {
                let is_focused = pane == self.pane;
                if is_focused {
                    self.page = usize::from(place.height.saturating_sub(2));
                }
                let inner =
                    Rect { y: place.y + 1, height: place.height.saturating_sub(1), ..place };
                if let Some(why) = self.no_gpus().filter(|_| pane == Pane::Gpus) {
                    self.draw_title(buffer, place, "No GPUs", is_focused);
                    let plain = style(Tone::Plain, setup.colors);
                    draw_text(buffer, inner, (inner.x, inner.y), &safe(why), plain);
                    continue;
                }
                if pane == Pane::Detail {
                    self.draw_title(buffer, place, &detail.title, is_focused);
                    self.draw_detail(buffer, inner, &detail);
                    continue;
                }
                let rows = self.list_of(pane);
                let title = rows.title();
                let page = rows.page(usize::from(inner.height.saturating_sub(1)), &view);
                let title = self.with_counts(pane, title);
                self.draw_title(buffer, place, &title, is_focused);
                table::draw(buffer, inner, &page, setup.colors, is_focused);
            }
        }
        if area.height > 1 {
            self.draw_footer(buffer, line(area.bottom() - 1));
        }
        if setup.ascii {
            reduce(buffer);
        }
    }

    /// The panes with their places. A low picture has only the focused one.
    fn places(&mut self, body: Rect) -> Vec<(Pane, Rect)> {
        if self.is_zoomed || body.height < THREE {
            return vec![(self.pane, body)];
        }
        let n_gpus = u16::try_from(self.list_of(Pane::Gpus).n_shown()).unwrap_or(u16::MAX);
        let n_second = u16::try_from(self.list_of(Pane::Second).n_shown()).unwrap_or(u16::MAX);
        let most = |pane| if self.pane == pane { body.height / 2 } else { body.height / 3 };
        let of_gpus = n_gpus.max(1).saturating_add(LIST - 1).min(most(Pane::Gpus));
        let of_detail = most(Pane::Detail);
        let of_second = n_second.max(1).saturating_add(LIST - 1);
        let of_second = of_second.min(body.height - of_gpus - of_detail).max(LIST);
        // Lines that the lists do not need show more details.
        let of_detail = body.height - of_gpus - of_second;
        let mut y = body.y;
        let heights = [(Pane::Gpus, of_gpus), (Pane::Second, of_second), (Pane::Detail, of_detail)];
        let place = |(pane, height): (Pane, u16)| {
            let place = Rect { y, height, ..body };
            y += height;
            (pane, place)
        };
        heights.into_iter().map(place).collect()
    }

    /// Why the machine has no GPUs, if it has none.
    fn no_gpus(&self) -> Option<&str> {
        self.machine.as_ref().and_then(|machine| machine.no_gpus.as_deref())
    }

    fn with_counts(&self, pane: Pane, title: String) -> String {
        match (pane, self.n_jobs) {
            (Pane::Second, Some(total)) => format!("{title} · of {}", count(total, "job")),
            _ => title,
        }
    }

    /// A line with a title. The focused pane has another rule: colors and weights may be missing.
    fn draw_title(&self, buffer: &mut Buffer, place: Rect, title: &str, is_focused: bool) {
        let tone = if is_focused { Tone::Head } else { Tone::Dim };
        let rule = match (self.setup.ascii, is_focused) {
            (true, true) => "=",
            (true, false) => "-",
            (false, true) => "━",
            (false, false) => "─",
        };
        let text = cut(&format!("{rule} {title} "), usize::from(place.width));
        let rest = usize::from(place.width).saturating_sub(text.width());
        let ink = style(tone, self.setup.colors);
        let at = draw_text(buffer, place, (place.x, place.y), &text, ink);
        draw_text(buffer, place, (at, place.y), &rule.repeat(rest), ink);
    }

    fn draw_header(&self, buffer: &mut Buffer, area: Rect, now: Time) {
        let colors = self.setup.colors;
        let at = draw_text(buffer, area, (area.x, area.y), "gpool top", style(Tone::Head, colors));
        let time = self.setup.clock.second(now, now);
        let at =
            draw_text(buffer, area, (at, area.y), &format!("  {time}"), style(Tone::Plain, colors));
        let text = match (&self.status, &self.machine) {
            (Some(status), _) => format!("  {}", counts(status)),
            (None, Some(machine)) => {
                let cpu = machine.cpu.map(|cpu| format!("  CPU {}%", percent(cpu)));
                let used = Bytes::new(machine.memory_used);
                let driver = machine.driver.as_ref().map(|it| format!("  {}", safe(it)));
                format!(
                    "  {}{}  memory {used} of {}{}",
                    safe(&machine.name),
                    cpu.unwrap_or_default(),
                    Bytes::new(machine.memory_total),
                    driver.unwrap_or_default()
                )
            }
            (None, None) => "  reading…".to_owned(),
        };
        let at = draw_text(buffer, area, (at, area.y), &text, style(Tone::Plain, colors));
        if let Some(away) = &self.away {
            draw_text(buffer, area, (at, area.y), &format!("  {away}"), style(Tone::Warn, colors));
        }
    }

    fn draw_footer(&mut self, buffer: &mut Buffer, area: Rect) {
        let colors = self.setup.colors;
        let (text, tone) = match &self.mode {
            Mode::Confirm(question) => (format!("{}? y / n", question.text), Tone::Warn),
            Mode::Filter(_) => {
                (format!("/{}_  Enter keeps, Esc undoes", self.rows().filter()), Tone::Head)
            }
            Mode::Sort => {
                let sorts = self.rows().sorts();
                let sorts = sorts.iter().map(|(key, name)| format!("{key} {name}"));
                (format!("sort by: {}", sorts.collect::<Vec<_>>().join("  ")), Tone::Head)
            }
            Mode::Help => ("any key leaves the help".to_owned(), Tone::Dim),
            Mode::Browse => match &self.message {
                Some(said) => (safe(said).into_owned(), Tone::Head),
                None => (self.keys(), Tone::Dim),
            },
        };
        draw_text(
            buffer,
            area,
            (area.x, area.y),
            &cut(&text, usize::from(area.width)),
            style(tone, colors),
        );
    }

    fn keys(&self) -> String {
        let acts = match self.setup.is_machine {
            true => "z zoom  T terminate  K kill",
            false => "c cancel  H hold  R release",
        };
        format!("? help  q quit  Tab pane  / filter  o sort  {acts}")
    }

    fn draw_help(&self, buffer: &mut Buffer, area: Rect) {
        let mut lines: Vec<(String, String)> = [
            ("up down, k j", "select a row, or scroll"),
            ("PgUp PgDn, g G", "move by a page, or to the first or last row"),
            ("Tab, Shift-Tab", "next or previous pane"),
            ("left right, h l", "overview, chart, output or explanation of the job"),
            ("Enter, z", "show only this pane, or all again"),
            ("/", "filter: rows with all words"),
            ("o and a letter", "sort by a column; , and . for the next and previous"),
            ("!", "reverse the order"),
            ("Space", "tag a row, for an action on several"),
            ("Esc", "leave this pane alone, remove tags, remove the filter"),
            ("r", "read all data now"),
            ("q, Ctrl-C", "leave"),
        ]
        .map(|(keys, text)| (keys.to_owned(), text.to_owned()))
        .to_vec();
        let verbs = VERBS.iter().map(|(key, verb)| (*key, verb.name(), "the job"));
        let signals = SIGNALS.iter().map(|(key, _, word)| (*key, *word, "the process"));
        let act = |(key, name, what): (char, &str, &str)| {
            (key.to_string(), format!("{name} {what}, after a question"))
        };
        match self.setup.is_machine {
            true => lines.extend(signals.map(act)),
            false => lines.extend(verbs.map(act)),
        }
        let colors = self.setup.colors;
        let bold = style(Tone::Head, colors);
        for ((keys, text), y) in lines.iter().zip(area.y..area.bottom()) {
            draw_text(buffer, area, (area.x + 1, y), keys, bold.add_modifier(Modifier::BOLD));
            draw_text(buffer, area, (area.x + 18, y), text, style(Tone::Plain, colors));
        }
    }
}
