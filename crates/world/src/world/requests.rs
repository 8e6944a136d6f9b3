//! Requests with an idempotency key, and the answers to them.

use gpool_model::Timestamp;
use gpool_model::record::{IdempotencyRecord, Record};

use crate::world::World;

impl World {
    /// Stores the answer to a request.
    pub fn put_request(&mut self, record: IdempotencyRecord) {
        self.mark(Record::Idempotency(record.clone()).key());
        self.remember_request(record);
    }

    pub(crate) fn remember_request(&mut self, record: IdempotencyRecord) {
        let age = (record.at, record.key());
        self.requests_of.entry(record.uid).or_default().insert(age.clone());
        self.requests_by_age.insert(age);
        self.requests.insert(record.key(), record);
    }

    /// Forgets requests that were answered before a moment.
    pub fn forget_requests(&mut self, before: Timestamp) {
        while let Some(oldest) = self.requests_by_age.first().cloned() {
            if oldest.0 >= before {
                break;
            }
            self.forget_request(&oldest);
        }
    }

    /// Forgets a user's oldest requests until `most` are left.
    pub fn forget_requests_of(&mut self, uid: u32, most: usize) {
        while let Some(of_user) = self.requests_of.get(&uid).filter(|it| it.len() > most) {
            let Some(oldest) = of_user.first().cloned() else { break };
            self.forget_request(&oldest);
        }
    }

    fn forget_request(&mut self, age: &(Timestamp, String)) {
        self.requests_by_age.remove(age);
        let Some(record) = self.requests.remove(&age.1) else { return };
        if let Some(of_user) = self.requests_of.get_mut(&record.uid) {
            of_user.remove(age);
            if of_user.is_empty() {
                self.requests_of.remove(&record.uid);
            }
        }
        self.mark(Record::Idempotency(record).key());
    }
}

#[cfg(test)]
mod tests {
    use gpool_model::{JobNumber, Policy};

    use super::*;

    #[test]
    fn a_users_oldest_requests_are_forgotten_and_no_others() {
        let mut world = World::new(Policy::fair());
        let put = |world: &mut World, uid: u32, at: u64| {
            let (name, digest) = (at.to_string(), String::new());
            let (at, first) = (Timestamp::new(at), JobNumber(1));
            world.put_request(IdempotencyRecord { uid, name, digest, at, first, n_jobs: 1 });
        };
        put(&mut world, 7, 1);
        for at in 2..7 {
            put(&mut world, 1000, at);
        }
        world.forget_requests_of(1000, 2);
        let is_known = |world: &World, uid, at: u64| {
            world.request(&IdempotencyRecord::key_of(uid, &at.to_string())).is_some()
        };
        let known: Vec<u64> = (2..7).filter(|at| is_known(&world, 1000, *at)).collect();
        assert_eq!(known, [5, 6]);
        assert!(is_known(&world, 7, 1));
        world.forget_requests(Timestamp::new(6));
        assert!(!is_known(&world, 7, 1) && !is_known(&world, 1000, 5) && is_known(&world, 1000, 6));
        assert_eq!(world.requests_of.len(), 1);
    }
}
