//! Pictures of clusters of several sizes, in windows of several sizes.

use std::collections::BTreeMap;

use gpool_model::Millis;

use gpool_lab::render::cluster_grid::{Grid, Owners};
use gpool_lab::simulate::watch::view::View;

/// Nodes of eight GPUs; the first ones are full, later ones more and more empty.
fn nodes(n: usize, owners: &mut Owners) -> Vec<Vec<Option<usize>>> {
    let names = ["vision", "nlp", "", "6214e9", "Vision two", "\u{1b}[31mred", "语音"];
    let numbers: Vec<usize> = names.iter().map(|name| owners.number(name)).collect();
    let owner = |at: usize| Some(numbers[at / 5 % numbers.len()]);
    let gpu = |node: usize, ix: usize| {
        let at = node * 8 + ix;
        let is_taken = at * 3 < n * 8 || (at * 3 < n * 16 && ix < at / 8 % 8);
        owner(at).filter(|_| is_taken)
    };
    (0..n).map(|node| (0..8).map(|ix| gpu(node, ix)).collect()).collect()
}

fn picture(n: usize, columns: usize, lines: usize, (ascii, colors): (bool, bool)) -> String {
    let mut owners = Owners::default();
    let nodes = nodes(n, &mut owners);
    let waiting = BTreeMap::from([(1, 1_204), (2, 17), (8, 40), (16, 5), (32, 2), (64, 1)]);
    let before = [("fifo".to_owned(), 2_826_000.0), ("easy".to_owned(), 2_800_800.0)];
    let view = View {
        policy: "fair (3 of 4)",
        when: "day 12 of 31, 14:35",
        grid: Grid { owners: &owners, nodes: &nodes, ascii },
        n_running: 312,
        waiting: &waiting,
        waited: (Millis::from_hours(12_000), 20_123),
        before: &before,
        progress: "59%, 25s left",
        speed: "1d per second",
        is_paused: colors,
    };
    let rows = view.rows(columns - 1, lines);
    assert!(rows.len() <= lines, "{} in {lines}", rows.len());
    let mut text = String::new();
    for row in rows {
        text.push_str(row.text(columns - 1, colors).trim_end());
        text.push('\n');
    }
    text
}

const PLAIN: (bool, bool) = (false, false);

#[test]
fn eighty_nodes_fit_into_a_usual_terminal() {
    insta::assert_snapshot!(picture(80, 80, 24, PLAIN));
}

#[test]
fn a_large_window_has_round_numbers_of_nodes_side_by_side() {
    insta::assert_snapshot!(picture(80, 200, 50, PLAIN));
    insta::assert_snapshot!(picture(3, 200, 50, PLAIN));
}

#[test]
fn large_clusters_are_folded_in_small_windows() {
    insta::assert_snapshot!(picture(80, 40, 10, PLAIN));
    insta::assert_snapshot!(picture(2_000, 80, 24, PLAIN));
    insta::assert_snapshot!(picture(2_000, 40, 10, PLAIN));
    insta::assert_snapshot!(picture(2_000, 200, 50, PLAIN));
}

#[test]
fn few_nodes_are_shown_in_any_window() {
    insta::assert_snapshot!(picture(3, 80, 24, PLAIN));
    insta::assert_snapshot!(picture(3, 40, 10, PLAIN));
}

#[test]
fn colours_and_letters_say_the_same_and_blocks_become_digits() {
    insta::assert_snapshot!(picture(3, 80, 24, (false, true)).replace('\u{1b}', "^"));
    insta::assert_snapshot!(picture(2_000, 80, 24, (true, false)));
}

#[test]
fn no_window_is_too_small_and_no_cluster_too_large() {
    for (columns, lines) in [(1, 1), (2, 3), (5, 40), (300, 2), (12, 12), (3, 20), (80, 1)] {
        for n in [0, 1, 7, 80, 2_000, 10_000] {
            let text = picture(n, columns, lines, PLAIN);
            for line in text.lines() {
                assert!(unicode_width::UnicodeWidthStr::width(line) < columns, "{line:?}");
            }
        }
    }
}
