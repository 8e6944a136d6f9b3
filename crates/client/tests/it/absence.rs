//! Reports that a server stays away or silent, and that it is back: once each, for any number of
//! waiting requests.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use gpool_client::ServerPresence;
use gpool_client::testing::{Absence, UNTOLD};

#[test]
fn an_absence_is_reported_once_and_only_if_it_lasts() {
    let told: Arc<Mutex<Vec<ServerPresence>>> = Arc::default();
    let to = Arc::clone(&told);
    let tell = move |presence| to.lock().expect("no thread panicked").push(presence);
    let absence = Absence::telling(tell, true);
    let heard = || std::mem::take(&mut *told.lock().expect("no thread panicked"));
    let now = Instant::now();
    absence.away_at(now);
    absence.back();
    assert_eq!(heard(), [], "it was short");
    let other = absence.clone();
    absence.away_at(now);
    other.away_at(now + UNTOLD / 2);
    assert_eq!(heard(), []);
    other.away_at(now + UNTOLD);
    absence.away_at(now + UNTOLD * 2);
    assert_eq!(heard(), [ServerPresence::Away]);
    absence.back();
    other.back();
    assert_eq!(heard(), [ServerPresence::Back]);
}
