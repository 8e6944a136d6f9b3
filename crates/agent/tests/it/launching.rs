//! The agent of one node: one thread carries out orders and waits for events, a second one polls
//! the devices. Every decision that `gpool_node::converge` can make is made there.

use std::time::Duration;

use gpool_agent::StartError;
use gpool_agent::testing::await_launches;
use gpool_shepherd::layout::Layout;

#[test]
fn an_agent_waits_for_shepherds_of_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::new(dir.path());
    let late = await_launches(&layout, Duration::ZERO).unwrap();
    // A shepherd inherits it like this from its nursery.
    let inherited = late.try_clone().unwrap();
    drop(late);
    let refused = await_launches(&layout, Duration::ZERO).unwrap_err();
    let own = std::process::id();
    assert!(matches!(refused, StartError::Launching { ref holders } if *holders == [own]));
    drop(inherited);
    assert!(await_launches(&layout, Duration::ZERO).is_ok());
}
