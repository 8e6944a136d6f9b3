//! The memory of a device over time: every guarantee is met in its time.

use gpool_model::unit::{Bytes, Timestamp};
use gpool_node::loans::{Act, Called, Decision, Rung, Tenant, Wish, WishAnswer, decide};
use proptest::prelude::*;

use super::{DEADLINE, fitting, total};

/// How a task reacts to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// It frees the called loan once it gets the notice.
    Frees,
    /// It only leaves when it is moved.
    Moves,
    /// It could be moved, but there is no room elsewhere when it should; then it is paused.
    Fails,
    /// It only leaves when it is paused.
    Pauses,
    /// It only leaves when it is killed.
    Stubborn,
}

#[derive(Debug, Clone)]
enum Happens {
    /// A task wishes for this much more, or takes it if it may.
    Wants(usize, u64),
    Frees(usize, u64),
    /// All its processes are killed.
    Crashes(usize),
    /// The agent starts anew: it knows only the driver's figures and the wishes.
    Restart,
    Nothing,
}

fn happens() -> impl Strategy<Value = Happens> {
    let task = 0_usize..5;
    prop_oneof![
        12 => (task.clone(), 1_u64..60).prop_map(|(task, more)| Happens::Wants(task, more)),
        4 => (task.clone(), 1_u64..40).prop_map(|(task, less)| Happens::Frees(task, less)),
        1 => task.prop_map(Happens::Crashes),
        1 => Just(Happens::Restart),
        // A call takes half a minute.
        40 => Just(Happens::Nothing),
    ]
}

fn manner() -> impl Strategy<Value = Manner> {
    prop_oneof![
        Just(Manner::Frees),
        Just(Manner::Moves),
        Just(Manner::Fails),
        Just(Manner::Pauses),
        Just(Manner::Stubborn)
    ]
}

/// A device of 80 units with its tasks, second by second.
struct Machine {
    tenants: Vec<Tenant>,
    manners: Vec<Manner>,
    granted: Vec<Bytes>,
    /// When a task is killed.
    killed_at: Vec<Option<u64>>,
    second: u64,
    /// Since when the agent runs.
    started: u64,
}

impl Machine {
    fn new(mut tenants: Vec<Tenant>, manners: &[Manner]) -> Self {
        let manners: Vec<Manner> = manners.iter().copied().cycle().take(tenants.len()).collect();
        for (tenant, manner) in tenants.iter_mut().zip(&manners) {
            (tenant.used, tenant.wish) = (Bytes::ZERO, None);
            tenant.can_move = matches!(manner, Manner::Moves | Manner::Fails);
            tenant.can_pause = !matches!(manner, Manner::Frees | Manner::Stubborn);
        }
        let granted = vec![Bytes::ZERO; tenants.len()];
        let killed_at = vec![None; tenants.len()];
        Self { tenants, manners, granted, killed_at, second: 0, started: 0 }
    }

    fn happen(&mut self, happens: &Happens) {
        match happens {
            Happens::Wants(task, more) => {
                let now = Timestamp::new(self.second * 1000);
                let granted = self.granted.get(*task).copied().unwrap_or_default();
                let Some(tenant) = self.tenants.get_mut(*task) else { return };
                let total = tenant.used.saturating_add(Bytes::new(*more));
                if total <= granted {
                    tenant.used = total;
                } else if tenant.wish.is_none() {
                    tenant.wish = Some(Wish { total, since: now });
                }
            }
            Happens::Frees(task, less) => {
                let Some(tenant) = self.tenants.get_mut(*task) else { return };
                // A thread of it waits, so the size of its wish stays.
                if tenant.wish.is_none() {
                    tenant.used = tenant.used.saturating_sub(Bytes::new(*less));
                }
            }
            Happens::Crashes(task) => self.end(*task),
            Happens::Restart => {
                self.started = self.second;
                self.tenants.iter_mut().for_each(|tenant| tenant.called = None);
            }
            Happens::Nothing => {}
        }
    }

    fn end(&mut self, task: usize) {
        let Some(tenant) = self.tenants.get_mut(task) else { return };
        (tenant.used, tenant.wish) = (Bytes::ZERO, None);
        self.killed_at[task] = None;
    }

    /// A second passes: the agent decides, and the tasks react.
    fn pass(&mut self) -> Vec<Decision> {
        for task in 0..self.tenants.len() {
            if self.killed_at[task].is_some_and(|at| at <= self.second) {
                self.end(task);
            }
        }
        let now = Timestamp::new(self.second * 1000);
        let decided = decide(Bytes::new(80), DEADLINE, &self.tenants, now);
        for (task, decision) in decided.iter().enumerate() {
            self.granted[task] = decision.grant.bytes;
            let tenant = &mut self.tenants[task];
            tenant.called = decision.called;
            match (decision.grant.wish, tenant.wish) {
                (Some(WishAnswer::Yes), Some(wish)) => {
                    (tenant.used, tenant.wish) = (wish.total.max(tenant.used), None);
                }
                (Some(WishAnswer::No), _) => tenant.wish = None,
                _ => {}
            }
            match (decision.act, self.manners[task]) {
                (Some(Act::Notify), Manner::Frees) => {
                    tenant.used = decision.called.map_or(tenant.used, |called| called.keep);
                }
                (Some(Act::Move), Manner::Moves) => self.end(task),
                (Some(Act::Move), Manner::Fails) => tenant.can_move = false,
                (Some(Act::Pause), Manner::Pauses | Manner::Fails) => self.end(task),
                (Some(Act::Stop), _) => {
                    let grace = Rung::grace(DEADLINE).get() / 1000;
                    self.killed_at[task] = Some(self.second + grace);
                }
                _ => {}
            }
        }
        self.second += 1;
        decided
    }
}

proptest! {
    #[test]
    fn every_guarantee_is_met_in_its_time(
        tenants in fitting(),
        manners in proptest::collection::vec(manner(), 5),
        stream in proptest::collection::vec(happens(), 1..300),
    ) {
        let mut machine = Machine::new(tenants, &manners);
        let mut late_since = vec![None; machine.tenants.len()];
        for happens in &stream {
            machine.happen(happens);
            let before = machine.tenants.clone();
            let second = machine.second;
            let decided = machine.pass();
            let used = total(&machine.tenants, |_, tenant| tenant.used);
            prop_assert!(used <= 80, "{:?}", machine.tenants);
            for (task, (tenant, decision)) in before.iter().zip(&decided).enumerate() {
                // No task moves without need, and none is paused that can move.
                let is_called = decision.called.is_some() && !tenant.loan().is_zero();
                prop_assert!(decision.act != Some(Act::Move) || is_called);
                prop_assert!(decision.act != Some(Act::Pause) || !tenant.can_move);
                let keeps = |called: Called| called.keep >= tenant.request;
                prop_assert!(decision.called.is_none_or(keeps), "below a request");
                let is_guaranteed = |wish: &Wish| wish.total <= tenant.request;
                let Some(wish) = tenant.wish.filter(is_guaranteed) else { continue };
                let waited = second * 1000 - wish.since.get();
                let waits = decision.grant.wish == Some(WishAnswer::Wait);
                // No wish waits beyond the deadline unnoticed.
                prop_assert!(!waits || waited < DEADLINE.get() || decision.is_late);
                if decision.is_late {
                    late_since[task] = Some(second);
                    // A restart begins the calls anew; nothing else makes a guarantee late.
                    prop_assert!(machine.started > wish.since.get() / 1000, "{tenant:?}");
                }
                let is_granted = decision.grant.wish == Some(WishAnswer::Yes);
                prop_assert!(waits || is_granted || waited >= 60_000);
            }
        }
    }
}
