//! A run as a text that plays again without any random number.
//!
//! ```text
//! # Whatever helps to understand it.
//! gpool-sim 1
//! server batch 2
//! node devices 2 model 1 cpus 64 tasks 64
//! submit jobs 2 gpus 1 limit 60 key 1
//! commit
//! order
//! ```
//!
//! First the version of the format, then the server and each node, then what happens, a line each:
//! a word and named numbers ([`Kind`](crate::Kind) has them all). A number that is 0 may be left
//! out. What follows a `#` is a comment. At the end everything comes to rest and is checked.

use gpool_sim::{Scenario, Swarm};

#[test]
fn what_is_written_is_read_again() {
    let swarm = Swarm::of(4, Some(80));
    let happenings = gpool_sim::run(&swarm, None, false).happenings;
    let scenario = Scenario { cluster: swarm.cluster, happenings };
    assert_eq!(scenario.to_string().parse(), Ok(scenario));
}

#[test]
fn a_mistake_is_refused_with_its_line() {
    let refused = |text: &str| text.parse::<Scenario>().expect_err("it is wrong");
    assert_eq!(refused("node"), "line 1: a scenario begins with \"gpool-sim 1\"");
    assert_eq!(
        refused("gpool-sim 1\n\nnode gpus 3 # three\n"),
        "line 3: \"gpus\" is none of: devices model mixed cpus tasks moves lends pauses remaps \
         fast slow late"
    );
    assert_eq!(
        refused("gpool-sim 1\nnode devices -1\n"),
        "line 2: after \"devices\" there must be a number to 10000"
    );
    assert!(refused("gpool-sim 1\n").starts_with("there is no node"));
}
