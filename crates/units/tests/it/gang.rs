//! Tests of `gang`.

use gpool_units::gang::Gang;
use gpool_units::id::{Attempt, JobId};

#[test]
fn neighbouring_runs_have_different_ports() {
    let port = |number, attempt| Gang::port(JobId::single(number), Attempt(attempt));
    assert_eq!(port(7, 1), port(7, 1));
    let ports: std::collections::BTreeSet<u16> =
        (1..200).flat_map(|number| [port(number, 1), port(number, 2)]).collect();
    assert_eq!(ports.len(), 398);
    assert!(ports.iter().all(|port| Gang::PORTS.contains(port)));
    assert!(Gang::PORTS.contains(&port(u64::MAX, u32::MAX)));
}

#[test]
fn the_number_of_tasks_is_bounded() {
    assert_eq!(Gang::new(1, 1), Some(Gang::SINGLE));
    assert_eq!(Gang::new(3, 2).map(Gang::n_tasks), Some(6));
    assert_eq!(Gang::new(0, 1), None);
    assert_eq!(Gang::new(1, 0), None);
    assert_eq!(Gang::new(16_384, 2), None);
    assert_eq!(Gang::new(u32::MAX, u32::MAX), None);
    assert_eq!(Gang::anywhere(0), None);
    assert_eq!(Gang::anywhere(1), Some(Gang::SINGLE));
    assert_eq!(Gang::anywhere(5).map(|it| (it.n_tasks(), it.most_on_node())), Some((5, 5)));
    assert_eq!(Gang::new(5, 2).map(Gang::most_on_node), Some(1));
}
