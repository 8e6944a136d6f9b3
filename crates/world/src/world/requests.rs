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
