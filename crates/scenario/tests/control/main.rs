//! The state machine under random streams: a network that loses, repeats and reorders, a store
//! that fails, agents and servers that are killed. After every step the state is checked, and no
//! device of any node is used by two tasks; at the end everything comes to rest.

#![allow(clippy::unwrap_used, reason = "a test that fails panics anyway")]

mod agent;
mod server;

use std::fmt;

use gpool_scenario::{Situation, Step, config, situations, steps};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

use crate::server::{Happening, Server};

/// A cluster and what happens to it.
#[derive(Clone)]
struct Stream {
    start: Situation,
    happenings: Vec<Happening>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.start)?;
        self.happenings.iter().try_for_each(|what| writeln!(f, "{what:?}"))
    }
}

/// What people, time and devices do, taken from the streams without agents.
fn outside() -> impl Strategy<Value = Happening> {
    steps().prop_filter_map("has another form here", |step| match step {
        Step::Submit(seed) => Some(Happening::Submit(seed)),
        Step::Cancel(pick) => Some(Happening::Cancel(pick)),
        Step::Hold(pick) => Some(Happening::Hold(pick)),
        Step::Release(pick) => Some(Happening::Release(pick)),
        Step::Device(node, device, change) => Some(Happening::Device(node, device, change)),
        Step::Pass(length) => Some(Happening::Pass(length)),
        Step::End(..) | Step::Requeue(_) | Step::Connect(..) | Step::Strategy(_) => None,
    })
}

/// Messages mostly arrive, mostly in order.
fn inside() -> impl Strategy<Value = Happening> {
    let message = || (any::<u32>(), prop_oneof![3 => Just(0), 1 => any::<u32>()]);
    let again = || prop::bool::weighted(0.15);
    prop_oneof![
        12 => (message(), again()).prop_map(|((n, m), a)| Happening::Order(n, m, a)),
        12 => (message(), again()).prop_map(|((n, m), a)| Happening::Report(n, m, a)),
        1 => message().prop_map(|(n, m)| Happening::LoseOrder(n, m)),
        1 => message().prop_map(|(n, m)| Happening::LoseReport(n, m)),
        6 => message().prop_map(|(n, t)| Happening::Start(n, t)),
        1 => message().prop_map(|(n, t)| Happening::Refuse(n, t)),
        4 => (message(), 0..2i32).prop_map(|((n, t), code)| Happening::End(n, t, code)),
        1 => any::<u32>().prop_map(Happening::RestartAgent),
        16 => Just(Happening::Commit),
        1 => (0u32..3).prop_map(Happening::RestartServer),
        1 => (any::<u32>(), -1000..=1000i32).prop_map(|(j, p)| Happening::Edit(j, p)),
    ]
}

fn streams(n_max: usize) -> impl Strategy<Value = Stream> {
    let happening = prop_oneof![2 => outside(), 5 => inside()];
    (situations(), vec(happening, 1..=n_max))
        .prop_map(|(start, happenings)| Stream { start, happenings })
}

fn play(stream: &Stream) -> Server {
    let mut server = Server::new(&stream.start);
    for what in &stream.happenings {
        server.happen(what);
        server.check();
    }
    server.settle();
    server
}

proptest! {
    #![proptest_config(config(150))]

    /// RELIABILITY I1, I2, I3, I6, I10 and SCHEDULING §E 1, 2.
    #[test]
    fn nothing_is_lost_or_done_twice_whatever_fails(stream in streams(250)) {
        play(&stream);
    }
}

#[test]
fn streams_are_worth_something() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut n_replies, mut n_ended) = (0, 0);
    for _ in 0..40 {
        let stream = streams(250).new_tree(&mut runner).unwrap().current();
        let server = play(&stream);
        n_replies += server.n_replies();
        n_ended += server.n_ended();
    }
    assert!(n_replies > 500 && n_ended > 250, "{n_replies} answers, {n_ended} ends");
}
