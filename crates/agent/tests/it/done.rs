//! A file of finished tasks with acknowledged ends: a restarted agent must not launch one of them
//! again because of a late order. Two files of bounded length; when one is full, it replaces the
//! older.

use gpool_agent::testing::Done;
use gpool_model::TaskId;
use gpool_shepherd::layout::Layout;

#[test]
fn noted_tasks_are_read_in_order_and_the_oldest_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    let task = |number: usize| format!("{number}#1/0").parse::<TaskId>().unwrap();
    let (mut done, none) = Done::open(&layout).unwrap();
    assert!(none.is_empty());
    let count = Done::MOST * 2 + 5;
    for number in 0..count {
        done.note(task(number)).unwrap();
    }
    let (_, read) = Done::open(&layout).unwrap();
    assert_eq!(read.len(), Done::MOST + 5);
    assert_eq!((read.first(), read.last()), (Some(&task(Done::MOST)), Some(&task(count - 1))));
}
