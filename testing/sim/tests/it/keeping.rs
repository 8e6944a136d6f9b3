//! Reservations, maintenance windows and drains among what admins wish, and what must hold of
//! them.

use gpool_sim::Scenario;
use gpool_sim::testing::outsiders;

#[test]
fn who_starts_in_a_step_after_which_the_node_is_emptied_is_an_outsider_and_nobody_else() {
    let text = include_str!("../../scenarios/drained-behind-a-start.txt");
    let scenario: Scenario = text.parse().expect("a scenario");
    let (n_starting, [known, unknown]) = outsiders(&scenario).expect("a server");
    assert_eq!(n_starting, 1, "a job starts");
    assert_eq!(known, None);
    assert_eq!(unknown.as_deref(), Some("job 1 started on n0, drained"));
}
