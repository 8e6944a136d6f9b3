//! Whole pictures.

use gpool_top::data::News;
use insta::assert_snapshot;
use serde_json::json;

use crate::cluster::{self, job};
use crate::screen::{ASCII, FULL, Screen};

#[test]
fn a_cluster_at_80_by_24() {
    assert_snapshot!(Screen::of_cluster(80, 24, FULL).picture());
}

#[test]
fn a_cluster_at_120_by_40() {
    let mut screen = Screen::of_cluster(120, 40, FULL);
    assert_snapshot!(screen.picture());
}

#[test]
fn a_waiting_job_shows_why_in_ascii() {
    let mut screen = Screen::of_cluster(80, 24, ASCII);
    screen.types("j");
    let picture = screen.picture();
    assert!(picture.is_ascii(), "{picture}");
    assert_snapshot!(picture);
}

#[test]
fn a_gpu_shows_its_processes() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    screen.types("<BackTab>jj");
    assert_snapshot!(screen.picture());
}

#[test]
fn help_lists_each_key() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    screen.types("?");
    assert_snapshot!(screen.picture());
}

#[test]
fn without_colors_no_cell_has_one_and_the_text_is_the_same() {
    let colored = Screen::of_cluster(80, 24, FULL).picture();
    let mut plain = Screen::of_cluster(80, 24, (false, false));
    assert_eq!(plain.picture(), colored);
    let buffer = plain.buffer();
    let reset = ratatui_core::style::Color::Reset;
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (reset, reset)));
    let lines = gpool_top::lines(&buffer).join("\n");
    assert!(!lines.contains(";31m") && !lines.contains(";32m"), "{lines}");
    let colored = gpool_top::lines(&Screen::of_cluster(80, 24, FULL).buffer()).join("\n");
    assert!(colored.contains(";32m"), "{colored}");
}

#[test]
fn names_can_not_control_the_terminal() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    let hostile = "a\x1b[2J\x07\u{202e}b\ttab\r\n日本語の長い名前がここにあります";
    let mut hostile_job = job("20", hostile, "e\x1b]0;owned\x07ve", "running");
    hostile_job.placement[0].node = "n\x1bc".to_owned();
    let log = "ok\x1b]52;c;aGk=\x07\x1b[31mred\u{9b}2J\u{202e}\n".to_owned();
    screen.take(vec![
        News::Jobs(vec![hostile_job, job("21", "日本語", "ana", "pending")], None),
        News::Log { job: "20".to_owned(), text: log },
    ]);
    for keys in ["", "<Tab>", "<Tab>c"] {
        screen.types(keys);
        let lines = gpool_top::lines(&screen.buffer()).join("");
        let own = lines.split('\x1b').skip(1);
        for sequence in own {
            let is_style = sequence.starts_with("[0") && sequence.contains('m');
            assert!(is_style, "{sequence:?} in {lines:?}");
        }
        let bare = lines.replace('\x1b', "");
        assert!(!bare.chars().any(char::is_control), "{bare:?}");
        assert!(!bare.contains('\u{202e}') && !bare.contains('\u{9b}'), "{bare:?}");
    }
    screen.types("<Esc><Tab><Tab>");
    assert_snapshot!(screen.picture());
}

#[test]
fn ten_thousand_jobs_are_a_page() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    let jobs: Vec<_> = (1..=10_000)
        .map(|id| job(&id.to_string(), &format!("job-{id}"), "ana", "pending"))
        .collect();
    screen.take(vec![News::Jobs(jobs, Some(31_000))]);
    screen.types("<End>");
    assert_snapshot!(screen.picture());
    screen.types("/job-77 ana<Enter>");
    let picture = screen.picture();
    assert!(picture.contains("Queue 111 of 10000"), "{picture}");
    assert!(picture.contains("of 31,000 jobs"), "{picture}");
}

#[test]
fn an_empty_cluster_and_a_server_that_is_away() {
    let mut screen = Screen::new(80, 24, FULL, false);
    assert!(screen.picture().contains("reading"));
    let status = cluster::status(&json!({}), &json!({}));
    screen.take(vec![
        News::Jobs(Vec::new(), None),
        News::Cluster(Box::new(status), Vec::new()),
        News::Away("no server answers".to_owned()),
    ]);
    assert_snapshot!(screen.picture());
}

#[test]
fn each_size_is_drawn_and_keeps_the_selection() {
    let mut screen = Screen::of_cluster(80, 24, FULL);
    screen.types("j");
    for (columns, lines) in [(1, 1), (3, 2), (20, 5), (40, 10), (79, 13), (200, 60), (80, 24)] {
        screen.resize(columns, lines);
        for pane in 0..3 {
            screen.types("<Tab>");
            let picture = screen.picture();
            assert_eq!(picture.lines().count(), usize::from(lines), "pane {pane}: {picture}");
        }
    }
    assert!(screen.picture().contains(">18"), "{}", screen.picture());
}
