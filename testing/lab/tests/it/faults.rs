//! `gpool bench faults`: provokes each fault that one machine can have, on private clusters with
//! real processes, and prints the results against the targets. It counts ids, lines that jobs wrote
//! and exit codes, and does not rely on the server's own reports.

use gpool_lab::bench::faults::{
    Fault, Options, Outcome, Row, chosen, n_missed, row, summary, text,
};
use gpool_lab::bench::figure::Figure;

fn done(figures: Vec<Figure>) -> Row {
    row(Fault::Kill, Outcome::Done { did: "two kills".to_owned(), figures })
}

#[test]
fn a_missed_bar_is_counted_and_a_skipped_fault_says_why() {
    let good = Figure::new("lost", "jobs lost", 0.0, "jobs").exactly(0.0);
    let bad = Figure::new("lost", "jobs lost", 1.0, "jobs").exactly(0.0);
    let explains = Figure::new("n", "jobs", 7.0, "jobs");
    let skipped = row(Fault::Clock, Outcome::skipped("no library"));
    assert_eq!(text(&skipped), "clock: skipped: no library\n\n");
    let rows = [done(vec![good, explains]), done(vec![bad]), skipped];
    assert_eq!(n_missed(&rows), 1);
    assert_eq!(summary(&rows), "1 of 2 targets reached, 1 of 3 faults skipped\n");
    assert!(text(&rows[0]).starts_with("kill: two kills\n"), "{}", text(&rows[0]));
}

#[test]
fn all_faults_are_chosen_if_none_is_named() {
    let options = Options { faults: Vec::new(), quick: true, kept: None };
    assert_eq!(chosen(&options).len(), 13);
    assert_eq!(options.amount(9, 3), 3);
    let one = Options { faults: vec![Fault::Crowd], ..options };
    assert_eq!(chosen(&one), [Fault::Crowd]);
}
