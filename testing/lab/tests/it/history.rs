//! The input of `gpool simulate queue`: the jobs of a file on equal nodes, or the jobs of a store
//! on its own cluster.

use gpool_lab::simulate::history::LeftOut;

#[test]
fn omitted_jobs_are_counted_by_reason() {
    let none = LeftOut { never_ran: 0, not_ended: 0, before: 0 };
    assert_eq!(none.words(), None);
    let one = LeftOut { not_ended: 1, ..none };
    assert_eq!(one.words().as_deref(), Some("1 job is left out: 1 not ended yet"));
    let all = LeftOut { never_ran: 2, not_ended: 1, before: 1200 };
    let said = "1,203 jobs are left out: 2 never ran, 1 not ended yet, 1200 submitted before \
                --since";
    assert_eq!(all.words().as_deref(), Some(said));
}
