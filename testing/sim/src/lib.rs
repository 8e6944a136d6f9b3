//! The whole of gpool in one thread and in virtual time, from one seed.
//!
//! The state machine, the scheduler, its independent check and the brain of each agent are the
//! real ones. Around them stand a server with its clients ([`Sim`]), a store whose commits are
//! slow, fail or are cut off by a crash, a network that loses, repeats, reorders, delays and cuts
//! off, and machines on which shepherds and programs live on when the agent does not. Servers,
//! agents and shepherds are killed between any two of their acts; machines restart and forget what
//! was not on disk; devices fail, hang and are taken by others; wall clocks jump.
//!
//! From the seed [`Swarm::SHARING`] on, jobs share devices. Some nodes spread the shares and move
//! running tasks in two steps, which can fail. Others lend memory above the requests and call loans
//! back; their programs allocate at any time, and some keep a loan that is called back.
//!
//! From the seed [`Swarm::ELASTIC`] on, shares also change their size, users and nodes pause tasks,
//! and paused tasks resume on other devices, once their memory has room there.
//!
//! From the seed [`Swarm::IDLE`] on, programs also leave their devices unused for a while. The
//! server releases the devices, and its orders meet tasks that are away for their loans.
//!
//! From the seed [`Swarm::LEASED`] on, the nodes are other machines, and jobs share no devices.
//! Agents join late and have leases, their clocks drift, messages between server and agent are lost
//! in one direction or both, and the server takes agents for silent or lost.
//!
//! After each event the invariants are checked, and the promises to users: see [`Invariant`]. At
//! the end faults cease and live processes are not restarted; then all work that can end has to end
//! within ten minutes of virtual time.
//!
//! # How to read a failure
//!
//! `cargo xtask sim` prints the invariant, the finding, the seed with its [`Swarm`], and the shrunk
//! run, as a file below `testing/sim/scenarios` ([`Scenario`]). Read the shrunk run first: it
//! rarely has more than thirty lines. `cargo xtask sim replay FILE --verbose` prints the answers of
//! the state machine beside each line. Then decide which side is wrong: the product, or the
//! simulation around it. A test plays the files that stay in that folder.
//!
//! That the checks can fail is itself checked: each [`Bug`] is planted in turn and must be found.

#![forbid(unsafe_code)]

mod broken;
mod bug;
mod claim;
mod explore;
mod generate;
mod happening;
mod haste;
mod machine;
mod network;
mod nodes;
mod rng;
mod run;
mod scenario;
mod shrink;
mod sim;
mod store;
mod swarm;

pub use broken::{Broken, Invariant};
pub use bug::Bug;
pub use generate::Generator;
pub use happening::{Happening, Kind, Role};
pub use nodes::{Answer, Nodes, Question};
pub use rng::Rng;
pub use run::{Outcome, find, play, record, run};
pub use scenario::Scenario;
pub use shrink::shrink;
pub use sim::{Sim, Totals};
pub use swarm::{Cluster, NodeShape, Swarm};

/// Internals for the tests of this crate, in `tests/it`.
#[doc(hidden)]
pub mod testing {
    pub use crate::sim::keeping::outsiders;
}
