//! How long jobs like one another ran: a bounded table that drops the likenesses with the oldest
//! ends first.

use gpool_model::ProjectName;
use gpool_model::{Likeness, Millis, Timestamp};
use gpool_world::testing::Past;

fn like(user: usize) -> Likeness {
    let uid = u32::try_from(user).expect("few");
    Likeness { uid, project: ProjectName::new("default"), stem: "train-".to_owned() }
}

#[test]
fn the_likeness_that_ended_longest_ago_is_forgotten_first() {
    let mut past = Past::default();
    for at in 0..Past::LIKENESSES_MAX {
        past.add(like(at), Millis::from_mins(1), None, Timestamp::new(at as u64 + 1));
    }
    let last = Timestamp::new(1_000_000);
    assert_eq!(past.add(like(0), Millis::from_mins(3), None, last), vec![like(0)]);
    let new = like(Past::LIKENESSES_MAX);
    assert_eq!(past.add(new.clone(), Millis::from_mins(1), None, last), vec![new.clone(), like(1)]);
    assert!(past.of(&like(1)).is_none());
    assert_eq!(past.of(&like(0)).expect("it ended again").n_runs, 2);
    assert_eq!(past.all().count(), Past::LIKENESSES_MAX);
    assert_eq!(past.n_ages(), Past::LIKENESSES_MAX);
    assert!(past.runs(&new).is_some());
}
