//! `gpool bench`: the costs of gpool on this machine against their targets. Parts that need a
//! server start a private one with simulated devices in a temporary folder, and measure from
//! outside: real processes, everything durable. Parts about very large clusters run the state
//! machine itself.

use gpool_lab::bench::figure::Figure;
use gpool_lab::bench::history;
use gpool_lab::bench::{Options, Part, measure, text};

#[test]
fn a_part_is_shown_with_its_figures() {
    let figures = [Figure::new("x", "an x", 1.0, "ms"), Figure::new("y", "a y", 2.0, "ms")];
    let text = text(Part::Drain, &figures);
    assert!(text.starts_with("drain: Many short jobs"), "{text}");
    assert_eq!(text.lines().count(), 4, "{text}");
}

#[test]
fn the_parts_without_a_server_measure_something() {
    let options = Options { nodes: 3, pending: 200, ..Options::quick() };
    for part in [Part::Cycle, Part::Shares, Part::Flow] {
        let figures = measure(part, &options).expect("it needs nothing of the machine");
        assert!(!figures.is_empty());
        for figure in figures {
            assert!(figure.value.is_finite() && figure.value >= 0.0, "{figure:?}");
        }
    }
}

#[test]
fn the_store_of_the_history_is_measured() {
    let figures = history::measure(&history::Options { nodes: 9, hours: 2 });
    let figures = figures.expect("it needs only a folder");
    assert!(figures.len() >= 5);
    for figure in figures {
        assert!(figure.value.is_finite() && figure.value > 0.0, "{figure:?}");
    }
}
