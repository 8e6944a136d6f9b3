//! Checks whether tasks that share a device stay within their memory. Pure.

use gpool_device::overshoots;
use gpool_model::device::{DeviceProcess, Overshoot};
use gpool_model::unit::Timestamp;
use gpool_model::{Bytes, TaskId};

fn process(pid: u32, gib: Option<u32>) -> DeviceProcess {
    let (memory, seen_since) = (gib.map(Bytes::from_gib), Timestamp::ZERO);
    DeviceProcess { pid, user: None, name: None, memory, seen_since }
}

#[test]
fn the_memory_of_a_tasks_processes_is_added_up() {
    let tasks: [TaskId; 2] = ["1#1/0", "2#1/0"].map(|task| task.parse().expect("valid"));
    let given = |pid| match pid {
        10 | 11 => Some((tasks[0], Bytes::from_gib(20))),
        20 => Some((tasks[1], Bytes::from_gib(20))),
        _ => None,
    };
    let within = [process(10, Some(12)), process(11, Some(8)), process(20, Some(20))];
    assert_eq!(overshoots(&within, &given), []);
    let over = [process(10, Some(12)), process(11, Some(9)), process(30, Some(70))];
    let expected = Overshoot {
        task: tasks[0],
        limit: Bytes::from_gib(20),
        used: Bytes::from_gib(21),
        n_samples: 1,
    };
    assert_eq!(overshoots(&over, &given), [expected]);
    let untold = [process(10, Some(12)), process(11, None)];
    assert_eq!(overshoots(&untold, &given), []);
}
