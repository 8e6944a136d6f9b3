//! Runs slow reads beside the core and the HTTP threads: a few at once, users in turn, so that one
//! user's reads delay another's by one short read at most. Callers divide long reads.

use gpool_listen::testing::{ReadQueueState, Reads, Work};

fn state(waiting: &[(u32, usize)]) -> ReadQueueState {
    let works = |n: usize| (0..n).map(|_| Box::new(|| ()) as Work).collect();
    let waiting = waiting.iter().map(|(uid, n)| (*uid, works(*n))).collect();
    ReadQueueState::with(waiting)
}

#[test]
fn users_take_turns_however_much_one_asks() {
    let mut state = state(&[(1, 100), (2, 2), (7, 1)]);
    let mut order = Vec::new();
    while let Some((uid, _)) = state.take(1000) {
        order.push(uid);
    }
    assert_eq!(order[..7], [1, 2, 7, 1, 2, 1, 1]);
    assert_eq!(order.len(), 103);
}

#[test]
fn one_user_never_has_every_thread() {
    let mut state = state(&[(1, 3), (2, 1)]);
    assert_eq!(state.take(1).unwrap().0, 1);
    assert_eq!(state.take(1).unwrap().0, 2);
    assert!(state.take(1).is_none(), "what is left is of a user who has enough");
    state.running.remove(&1);
    assert_eq!(state.take(1).unwrap().0, 1);
}

#[test]
fn a_read_that_panics_keeps_no_other_from_being_done() {
    let reads = Reads::start().unwrap();
    for _ in 0..20 {
        reads.push(1, Box::new(|| panic!("as a read may")));
    }
    let (done, wait) = std::sync::mpsc::channel();
    reads.push(1, Box::new(move || done.send(()).unwrap()));
    wait.recv().unwrap();
}
