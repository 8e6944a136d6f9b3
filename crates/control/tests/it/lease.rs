//! What a server knows of the lease of an agent.

use gpool_control::lease::{LeaseWatch, Reachability};
use gpool_model::{LeaseTerms, Millis};

const SILENT_AFTER: Millis = Millis::from_secs(15);
const TERMS: Option<LeaseTerms> = Some(LeaseTerms::USUAL);

fn lost_after() -> u64 {
    LeaseTerms::USUAL.lost_after().get()
}

#[test]
fn an_agent_is_silent_and_then_lost_and_each_is_told_once() {
    let mut watch = LeaseWatch::new(1000);
    assert_eq!(watch.look(16_000, SILENT_AFTER, TERMS), None);
    assert_eq!(watch.look(16_001, SILENT_AFTER, TERMS), Some(Reachability::Silent));
    assert_eq!(watch.look(17_000, SILENT_AFTER, TERMS), None);
    assert_eq!(watch.look(1000 + lost_after(), SILENT_AFTER, TERMS), None);
    assert_eq!(watch.look(1001 + lost_after(), SILENT_AFTER, TERMS), Some(Reachability::Lost));
    watch.hear(2000 + lost_after());
    assert_eq!(watch.look(2000 + lost_after(), SILENT_AFTER, TERMS), Some(Reachability::Present));
}

#[test]
fn an_agent_without_a_lease_is_never_lost() {
    let mut watch = LeaseWatch::new(0);
    assert_eq!(watch.look(lost_after() * 10, SILENT_AFTER, None), Some(Reachability::Silent));
    assert_eq!(watch.look(lost_after() * 20, SILENT_AFTER, None), None);
}

#[test]
fn a_lost_agent_is_not_renewed_until_each_loss_is_carried_out() {
    let mut watch = LeaseWatch::new(0);
    assert!(watch.beat(77, 10));
    assert_eq!(watch.last_beat(), Some(77));
    let mut now = 10;
    for _ in 0..2 {
        now += lost_after() + 1;
        assert_eq!(watch.look(now, SILENT_AFTER, TERMS), Some(Reachability::Lost));
        assert_eq!(watch.last_beat(), None);
        assert!(!watch.beat(78, now));
        assert_eq!(watch.look(now, SILENT_AFTER, TERMS), Some(Reachability::Present));
    }
    watch.readmit();
    assert!(!watch.beat(79, now), "the second loss is not carried out");
    watch.readmit();
    assert!(watch.beat(80, now));
    assert_eq!(watch.last_beat(), Some(80));
}

#[test]
fn the_server_waits_for_the_slowest_clock_and_the_end_of_the_processes() {
    let slow = (LeaseTerms::USUAL.lasts.get() + LeaseTerms::GRACE.get()) * 105 / 95;
    assert!(lost_after() >= slow + 5000);
}
