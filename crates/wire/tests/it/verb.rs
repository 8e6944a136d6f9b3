//! Verbs on jobs in the API: a table, and request bodies. The table defines the routes with their
//! documentation, the client's requests, and the texts in the history of a job and in dumps.

use gpool_model::unit::{Millis, Timestamp};

use gpool_model::verb::LimitChange;
use gpool_wire::verb::body;
use gpool_wire::{JobVerb, VERBS, VerbRow};

#[test]
fn every_verb_has_a_row_and_its_body_is_read_again() {
    let by = Millis::new(90_500);
    let others = [
        JobVerb::Release { at: Some(Timestamp::new(1_700_000_000_000)) },
        JobVerb::Extend { change: LimitChange::Longer { by } },
        JobVerb::Extend { change: LimitChange::Shorter { by } },
        JobVerb::Extend { change: LimitChange::To { limit: Some(by) } },
        JobVerb::Requeue { hold: true },
    ];
    assert_eq!(VERBS.len(), JobVerb::ALL.len());
    for verb in JobVerb::ALL.into_iter().chain(others) {
        let jobs = vec!["17".to_owned(), "18.2".to_owned()];
        let bytes = body(verb, jobs.clone()).to_string();
        assert_eq!(VerbRow::of(verb).read(bytes.as_bytes()), Ok((jobs, verb)));
    }
}
