//! The list of ended jobs: `gpool history`.

use gpool_verbs::render::history::footer;
use gpool_wire::Totals;

#[test]
fn the_sums_are_of_all_and_not_of_what_is_shown() {
    let totals = Totals {
        n_jobs: 1234,
        n_succeeded: 1200,
        gpu_hours: 812.4,
        cpu_hours: 9.949,
        waited_hours: 100.0,
        n_started: 1000,
        is_partial: false,
    };
    assert_eq!(
        footer(50, &totals),
        "50 of 1,234 jobs (-n shows more) · 1,200 succeeded · 812 GPU-hours · 9.95 CPU-hours · \
         waited 6m on average"
    );
    assert_eq!(footer(0, &Totals::default()), "0 jobs");
}
