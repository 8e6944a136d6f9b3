//! Sources of requests, and places for their work.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use gpool_listen::testing::{Active, PendingSignIns, Places, Pool, RequestSource};
use tokio::time::timeout;

fn source(ip: &str) -> RequestSource {
    RequestSource::of(ip.parse::<IpAddr>().unwrap())
}

#[test]
fn addresses_that_one_site_can_choose_from_are_one_source() {
    for (one, other, is_same) in [
        ("127.0.0.1", "127.9.8.7", true),
        ("::1", "127.0.0.1", true),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::9", true),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ("::ffff:10.0.0.7", "10.0.0.7", true),
        ("10.0.0.7", "10.0.0.8", false),
    ] {
        assert_eq!(source(one) == source(other), is_same, "{one} {other}");
    }
}

#[tokio::test]
async fn a_source_that_fills_its_places_leaves_room_for_others() {
    let pool = Pool::new(3, 2);
    let mut taken =
        vec![pool.enter(RequestSource::User(1)).await, pool.enter(RequestSource::User(1)).await];
    let third = pool.enter(RequestSource::User(1));
    tokio::pin!(third);
    assert!(timeout(Duration::from_millis(20), third.as_mut()).await.is_err(), "it has two");
    let other = pool.enter(RequestSource::User(2)).await;
    taken.pop();
    // The place that became free is its own, and all three are taken again.
    let third = third.await;
    let more = pool.enter(RequestSource::User(3));
    tokio::pin!(more);
    assert!(timeout(Duration::from_millis(20), more.as_mut()).await.is_err());
    drop(other);
    more.await;
    drop((taken, third));
}

#[tokio::test]
async fn beside_another_source_a_source_has_fewer_places_and_each_rests() {
    let rest = Duration::from_secs(2);
    let places = Places { all: 9, most_of_one: 4, beside_others: 1, rest };
    let active = Active::default();
    let [reads, changes] = [(); 2].map(|()| Pool::among(places, active.clone()));
    let is_full = async |pool: &Pool, uid| {
        timeout(Duration::from_millis(20), pool.enter(RequestSource::User(uid))).await.is_err()
    };
    let mut alone = Vec::new();
    for _ in 0..4 {
        alone.push(reads.enter(RequestSource::User(1)).await);
    }
    assert!(is_full(&reads, 1).await, "it has all of its places");
    drop(alone);
    // The browsers of a user are no other source.
    drop(changes.enter(RequestSource::Browsers(1)).await);
    let alone =
        [reads.enter(RequestSource::User(1)).await, reads.enter(RequestSource::User(1)).await];
    drop(alone);
    drop(changes.enter(RequestSource::User(2)).await);
    let beside = reads.enter(RequestSource::User(1)).await;
    drop(changes.enter(RequestSource::User(3)).await);
    assert!(is_full(&reads, 1).await, "another one asked for a place of another pool");
    drop(beside);
    drop(changes.enter(RequestSource::User(4)).await);
    assert!(is_full(&reads, 1).await, "the place rests");
    // After the rest it is free.
    drop(reads.enter(RequestSource::User(1)).await);
}

#[test]
fn a_source_with_many_sign_ins_forgets_its_own_and_not_those_of_others() {
    let (now, mut waiting) = (Instant::now(), PendingSignIns::default());
    let until = |n: u64| now + Duration::from_secs(600 + n);
    waiting.insert("first".to_owned(), (), source("10.0.0.1"), until(0), now);
    for n in 0..1000 {
        waiting.insert(format!("a{n}"), (), source("10.0.0.2"), until(n), now);
    }
    let has = |waiting: &mut PendingSignIns<()>, name: &str| waiting.get_mut(name, now).is_some();
    assert!(has(&mut waiting, "first") && !has(&mut waiting, "a0") && has(&mut waiting, "a999"));
    // Many sources fill the table: those with most lose theirs first.
    for n in 0..2000_u32 {
        let ip = IpAddr::from([10, 1, (n / 250) as u8, (n % 250) as u8]);
        waiting.insert(format!("b{n}"), (), RequestSource::of(ip), until(2000), now);
    }
    assert!(!has(&mut waiting, "a999"), "it is older");
    assert_eq!((0..2000).filter(|n| has(&mut waiting, &format!("b{n}"))).count(), 1000);
    assert!(waiting.remove("b1999", now).is_some() && waiting.remove("b1999", now).is_none());
    assert!(waiting.remove("b1998", until(3000)).is_none(), "it is over");
}
