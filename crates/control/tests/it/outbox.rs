//! The recipients of messages about jobs, and how long a message is sent again.

use std::sync::Arc;

use gpool_model::job::JobState;
use gpool_model::notify::{Delivery, JobNews, Late, LateJob, Sent};
use gpool_model::{
    Command, Event, JobId, JobPatch, JobVerb, LimitChange, Millis, NewJob, NotifyOn, NotifyRule,
    Phase, Record, Timestamp, Version,
};

use crate::harness::{Harness, ana, bo, job, root};

fn rule(on: &[NotifyOn], url: &str) -> NotifyRule {
    NotifyRule { on: on.iter().copied().collect(), url: Arc::from(url), by_admin: false }
}

fn told(on: &[NotifyOn], url: &str) -> NewJob {
    job("0").with(|it| it.standing.notify = vec![rule(on, url)])
}

/// A job that never starts.
fn waits(on: &[NotifyOn], url: &str) -> NewJob {
    job("2").with(|it| {
        it.standing.notify = vec![rule(on, url)];
        it.allow_unsatisfiable = true;
    })
}

fn all() -> Vec<NotifyOn> {
    NotifyOn::ALL.iter().map(|(_, on)| *on).collect()
}

fn deliveries(harness: &Harness) -> Vec<Delivery> {
    let delivery = |record: &Record| match record {
        Record::Delivery(delivery) => Some((**delivery).clone()),
        _ => None,
    };
    harness.records.values().filter_map(delivery).collect()
}

fn news(delivery: &Delivery) -> &JobNews {
    delivery.news.job().expect("it is about a job")
}

fn states(sent: &[Delivery]) -> Vec<JobState> {
    sent.iter().map(|delivery| news(delivery).state).collect()
}

fn answer(harness: &mut Harness, delivery: &Delivery, sent: Sent) {
    harness.step(vec![Event::Delivered { id: Arc::clone(&delivery.id), sent }]);
}

fn failed() -> Sent {
    Sent::Failed { why: Arc::from("it answers 500") }
}

fn pass_until(harness: &mut Harness, at: Timestamp) {
    harness.now = at;
    harness.step(vec![Event::TimerFired]);
}

#[test]
fn only_requested_messages_are_sent() {
    let mut harness = Harness::new(1);
    let id = harness.add(told(&[NotifyOn::Start, NotifyOn::Fail], "http://a/"));
    let quiet = harness.add(told(&[NotifyOn::Done], "http://b/"));
    harness.started(id);
    harness.started(quiet);
    harness.exited(id, 3);
    harness.exited(quiet, 3);
    let sent = std::mem::take(&mut harness.sent);
    assert_eq!(states(&sent), [JobState::Running, JobState::Failed]);
    let news = news(&sent[1]);
    assert_eq!((news.job, news.exit_code, &*news.owner.user), (id, Some(3), "ana"));
    assert!(news.started_at.is_some() && news.ended_at.is_some() && !news.nodes.is_empty());
    for delivery in &sent {
        answer(&mut harness, delivery, Sent::Taken);
    }
    assert_eq!(deliveries(&harness), []);
    assert_eq!(harness.control.world().cluster().deliveries.n_taken, 2);
}

#[test]
fn a_message_leaves_only_when_its_change_is_durable() {
    let mut harness = Harness::new(1);
    let id = harness.add(told(&[NotifyOn::Start], "http://a/"));
    harness.slow_store();
    harness.started(id);
    assert_eq!(harness.sent, []);
    harness.catch_up();
    assert_eq!(states(&harness.sent), [JobState::Running]);
}

#[test]
fn a_message_is_sent_again_until_a_day_has_passed_and_then_given_up() {
    let mut harness = Harness::new(1);
    let id = harness.add(told(&[NotifyOn::Start], "http://a/secret"));
    harness.started(id);
    let began = harness.now;
    let mut n_sent = 0;
    while let Some(delivery) = harness.sent.pop() {
        n_sent += 1;
        assert_eq!(delivery.n_attempts, n_sent - 1);
        answer(&mut harness, &delivery, failed());
        assert_eq!(harness.sent, [], "not before its time");
        if let Some(at) = deliveries(&harness).first().map(|delivery| delivery.due_at) {
            pass_until(&mut harness, at);
        }
    }
    assert_eq!(n_sent, 12);
    let spent = harness.now.since(began);
    assert!(spent > Millis::from_hours(24) && spent < Millis::from_hours(26), "{spent:?}");
    let kept = deliveries(&harness);
    assert!(kept[0].given_up && kept[0].why.as_deref() == Some("it answers 500"), "{kept:?}");
    assert_eq!(harness.control.world().cluster().deliveries.n_given_up, 1);
    assert_eq!(harness.control.world().outbox().n_waiting(), 0);
}

#[test]
fn a_message_under_way_at_a_crash_is_sent_again_with_the_same_id() {
    let mut harness = Harness::new(1);
    let id = harness.add(told(&[NotifyOn::Start], "http://a/"));
    harness.started(id);
    let first = harness.sent.pop().expect("it left");
    harness.restart();
    let second = harness.sent.pop().expect("it leaves again");
    assert_eq!(first.id, second.id);
    answer(&mut harness, &second, Sent::Taken);
    // The answer to the first comes late.
    answer(&mut harness, &first, failed());
    assert_eq!(deliveries(&harness), []);
    harness.restart();
    assert_eq!(harness.sent, []);
}

#[test]
fn an_address_that_does_not_answer_keeps_no_other_waiting() {
    let mut harness = Harness::new(1);
    let slow: Vec<JobId> =
        (0..40).map(|_| harness.add(waits(&[NotifyOn::Hold], "http://slow/a"))).collect();
    let quick = harness.add(waits(&[NotifyOn::Hold], "http://quick/"));
    let jobs = slow.into_iter().chain([quick]).collect();
    harness.command(&ana(), Command::on(jobs, JobVerb::Hold)).expect("own jobs");
    let to = |sent: &[Delivery], host: &str| {
        sent.iter().filter(|delivery| delivery.origin() == host).count()
    };
    assert_eq!(to(&harness.sent, "http://slow"), 2);
    assert_eq!(to(&harness.sent, "http://quick"), 1);
    let first = harness.sent.remove(0);
    answer(&mut harness, &first, Sent::Taken);
    assert_eq!(to(&harness.sent, "http://slow"), 2, "the next one leaves");
}

fn unanswered() -> Sent {
    Sent::Unanswered { why: Arc::from("no answer within 10 s") }
}

/// Sends `n` messages for a user to each of `n_hosts` hosts that never answer.
fn flood(harness: &mut Harness, caller: &gpool_model::Caller, n_hosts: usize, n: usize) {
    let url = |host: usize| format!("http://{}-{host}.slow/", caller.owner.user);
    let jobs = (0..n_hosts * n).map(|at| waits(&[NotifyOn::Hold], &url(at % n_hosts))).collect();
    let before = harness.control.world().jobs().len();
    harness.submit(caller, jobs).expect("they fit");
    let jobs = harness.control.world().jobs().keys().copied().skip(before).collect();
    harness.command(caller, Command::on(jobs, JobVerb::Hold)).expect("own jobs");
}

fn tell_one(harness: &mut Harness, caller: &gpool_model::Caller, url: &str) {
    harness.submit(caller, vec![waits(&[NotifyOn::Hold], url)]).expect("it fits");
    let last = *harness.control.world().jobs().keys().last().expect("there are jobs");
    harness.command(caller, Command::on(vec![last], JobVerb::Hold)).expect("own job");
}

#[test]
fn many_messages_of_one_user_to_hosts_that_hang_delay_no_other_user() {
    let mut harness = Harness::new(1);
    flood(&mut harness, &ana(), 40, 15);
    assert_eq!(harness.sent.len(), 4, "a user has a share of the connections");
    tell_one(&mut harness, &bo(), "http://quick/");
    assert_eq!(harness.sent.last().expect("it left").origin(), "http://quick");
    // Mail works the same way.
    tell_one(&mut harness, &bo(), "mailto:bo@example.org");
    assert_eq!(&*harness.sent.last().expect("it left").url, "mailto:bo@example.org");
    assert_eq!(harness.sent.len(), 6);
}

#[test]
fn the_next_connection_is_of_the_user_with_the_fewest() {
    let mut harness = Harness::new(1);
    let users: Vec<_> = (0..8)
        .map(|n| {
            let mut user = ana();
            user.owner.uid = 5000 + n;
            user.owner.user = Arc::from(format!("user{n}"));
            user
        })
        .collect();
    for user in &users {
        flood(&mut harness, user, 10, 3);
    }
    assert_eq!(harness.sent.len(), 32, "all connections are in use");
    tell_one(&mut harness, &bo(), "http://quick/");
    assert_eq!(harness.sent.len(), 32);
    let first = harness.sent[0].clone();
    answer(&mut harness, &first, unanswered());
    assert_eq!(harness.sent.last().expect("it left").origin(), "http://quick");
}

#[test]
fn a_host_that_hangs_for_one_user_has_room_for_another() {
    let mut harness = Harness::new(1);
    flood(&mut harness, &ana(), 1, 20);
    assert_eq!(harness.sent.len(), 2);
    tell_one(&mut harness, &bo(), "https://ANA-0.slow:444/x");
    assert_eq!(harness.sent.len(), 3);
}

#[test]
fn a_host_that_does_not_answer_is_not_asked_for_each_message() {
    let mut harness = Harness::new(1);
    flood(&mut harness, &ana(), 1, 20);
    let (first, second) = (harness.sent[0].clone(), harness.sent[1].clone());
    answer(&mut harness, &first, unanswered());
    answer(&mut harness, &second, unanswered());
    assert_eq!(harness.sent.len(), 2, "the others are sent as late");
    let all = deliveries(&harness);
    assert!(all.len() == 20 && all.iter().all(|it| it.n_attempts == 1 && it.why.is_some()));
    // A message of another user, and one to another host, are sent on their own schedules.
    tell_one(&mut harness, &bo(), &first.url);
    tell_one(&mut harness, &ana(), "http://quick/");
    assert_eq!(harness.sent.len(), 4);
    let at = deliveries(&harness).iter().map(|it| it.due_at).max().expect("they wait");
    pass_until(&mut harness, at);
    assert_eq!(harness.sent.len(), 6);
    // An answer of any kind counts for that message alone.
    let last = harness.sent[5].clone();
    answer(&mut harness, &last, failed());
    assert_eq!(harness.sent.len(), 7);
}

#[test]
fn too_many_messages_of_one_user_are_counted_and_not_kept() {
    let mut harness = Harness::new(1);
    let jobs = |n: usize| (0..n).map(|_| waits(&[NotifyOn::Hold], "http://slow/")).collect();
    harness.submit(&ana(), jobs(1001)).expect("they fit");
    let jobs: Vec<JobId> = harness.control.world().jobs().keys().copied().collect();
    harness.command(&ana(), Command::on(jobs, JobVerb::Hold)).expect("own jobs");
    assert_eq!(harness.control.world().outbox().n_waiting(), 1000);
    assert_eq!(harness.control.world().cluster().deliveries.n_dropped, 1);
    // Other users can still send messages.
    let id = harness.submit(&bo(), vec![waits(&[NotifyOn::Hold], "http://b/")]);
    id.expect("it fits");
    let last = *harness.control.world().jobs().keys().last().expect("there are jobs");
    harness.command(&bo(), Command::on(vec![last], JobVerb::Hold)).expect("own job");
    assert_eq!(harness.control.world().outbox().n_waiting(), 1001);
}

#[test]
fn recipients_can_be_changed_and_rules_of_admins_are_marked() {
    let mut harness = Harness::new(1);
    let id = harness.add(waits(&all(), "http://a/"));
    let patch = |url: &str| {
        JobPatch::default().with("notify", |to| to.standing.notify = vec![rule(&all(), url)])
    };
    let edit = |patch| Command::Edit { job: id, version: None, patch, ends: Vec::new() };
    assert!(harness.command(&bo(), edit(patch("http://b/"))).is_err(), "not bo's job");
    harness.command(&root(), edit(patch("http://127.0.0.1/"))).expect("an admin may");
    harness.sent.clear();
    harness.command(&ana(), Command::on(vec![id], JobVerb::Hold)).expect("own job");
    assert_eq!(&*harness.sent[0].url, "http://127.0.0.1/");
    assert!(harness.sent[0].by_admin);
    harness.command(&ana(), edit(patch("http://127.0.0.1/"))).expect("own job");
    let job = &harness.control.world().job(id).expect("it lives").job;
    assert!(matches!(job.phase, Phase::Held { .. }) && !job.notify[0].by_admin);
}

#[test]
fn a_refused_message_is_not_sent_again() {
    let mut harness = Harness::new(1);
    let id = harness.add(told(&[NotifyOn::Start], "http://a/"));
    harness.started(id);
    let delivery = harness.sent.pop().expect("it left");
    answer(&mut harness, &delivery, Sent::Refused { why: Arc::from("it answers 410") });
    assert!(deliveries(&harness)[0].given_up);
    assert_eq!(harness.control.next_timer().filter(|at| *at <= harness.now), None);
}

/// A job with a time limit of ten minutes.
fn limited(on: &[NotifyOn]) -> NewJob {
    told(on, "http://a/").with(|it| it.time_limit = Some(Millis::from_mins(10)))
}

fn extend(harness: &mut Harness, id: JobId, mins: u32) {
    let change = LimitChange::To { limit: Some(Millis::from_mins(mins)) };
    let command = Command::on(vec![id], JobVerb::Extend { change });
    harness.command(&root(), command).expect("an admin may");
}

#[test]
fn nine_tenths_of_a_time_limit_are_reported_once() {
    let mut harness = Harness::new(1);
    let id = harness.add(limited(&[NotifyOn::NearLimit]));
    let quiet = harness.add(limited(&[NotifyOn::Done]));
    harness.started(id);
    harness.started(quiet);
    let at = harness.now.after(Millis::from_mins(9));
    assert_eq!(harness.control.next_change(), Some(at));
    pass_until(&mut harness, Timestamp::new(at.get() - 1));
    assert_eq!(harness.sent, []);
    harness.slow_store();
    pass_until(&mut harness, at);
    assert_eq!(harness.sent, [], "not before its mark is durable");
    harness.catch_up();
    let sent = harness.sent.pop().expect("it left");
    let near = news(&sent).near_limit.expect("it is the news");
    assert_eq!((near.limit, near.left), (Millis::from_mins(10), Millis::from_mins(1)));
    assert_eq!((news(&sent).job, news(&sent).what()), (id, "near_limit"));
    answer(&mut harness, &sent, Sent::Taken);
    harness.restart();
    pass_until(&mut harness, at.after(Millis::from_secs(10)));
    assert_eq!((&harness.sent[..], harness.control.next_change()), (&[][..], None));
}

#[test]
fn a_warning_that_was_not_durable_at_a_crash_is_made_again() {
    let mut harness = Harness::new(1);
    let id = harness.add(limited(&[NotifyOn::NearLimit]));
    harness.started(id);
    harness.slow_store();
    let before = harness.records.clone();
    let at = harness.now.after(Millis::from_mins(9));
    pass_until(&mut harness, at);
    harness.records = before;
    harness.restart();
    pass_until(&mut harness, at);
    assert_eq!(harness.sent.len(), 1);
}

#[test]
fn a_new_time_limit_or_attempt_is_reported_again() {
    let mut harness = Harness::new(1);
    let id = harness.add(limited(&[NotifyOn::NearLimit]));
    harness.started(id);
    let began = harness.now;
    let pass = |harness: &mut Harness, mins| pass_until(harness, began.after(mins));
    pass(&mut harness, Millis::from_mins(9));
    extend(&mut harness, id, 20);
    pass(&mut harness, Millis::from_mins(17));
    assert_eq!(harness.sent.len(), 1);
    pass(&mut harness, Millis::from_mins(18));
    let left = |delivery: &Delivery| news(delivery).near_limit.map(|near| near.left);
    assert_eq!(harness.sent.iter().filter_map(left).next_back(), Some(Millis::from_mins(2)));
    harness.command(&ana(), Command::on(vec![id], JobVerb::Requeue { hold: false })).expect("hers");
    let end = crate::harness::end(harness.now, None, true);
    harness.say(id, gpool_model::agent::TaskIs::Ended(end));
    harness.started(id);
    let began = harness.now;
    pass_until(&mut harness, began.after(Millis::from_mins(18)));
    let attempts: Vec<u32> = deliveries(&harness).iter().map(|it| news(it).attempt.0).collect();
    assert_eq!(attempts, [1, 1, 2]);
}

fn report_late(harness: &mut Harness, job: JobId, version: Version) {
    let (made_at, p90) = (Timestamp::new(1), harness.now);
    let late = Late { made_at, p90, reason: None, new_p50: None, new_p90: None };
    let command = Command::ReportLate { jobs: vec![LateJob { job, version, late }] };
    assert!(harness.command(&ana(), command.clone()).is_err(), "only the server may");
    harness.command(&root(), command).expect("the server may");
}

#[test]
fn a_missed_forecast_is_reported_once_for_each_job() {
    let mut harness = Harness::new(1);
    let id = harness.add(waits(&[NotifyOn::Late], "http://a/"));
    let quiet = harness.add(waits(&[NotifyOn::Done], "http://b/"));
    let runs = harness.add(told(&[NotifyOn::Late], "http://c/"));
    harness.started(runs);
    for job in [quiet, runs] {
        report_late(&mut harness, job, Version(1));
    }
    report_late(&mut harness, id, Version(2));
    assert_eq!(harness.sent, [], "an edit makes a forecast void");
    report_late(&mut harness, id, Version(1));
    let sent = harness.sent.pop().expect("it left");
    assert_eq!((news(&sent).job, news(&sent).what()), (id, "late"));
    answer(&mut harness, &sent, Sent::Taken);
    report_late(&mut harness, id, Version(1));
    harness.restart();
    report_late(&mut harness, id, Version(1));
    assert_eq!(harness.sent, []);
}

#[test]
fn a_report_of_a_missed_forecast_that_a_crash_lost_is_made_again() {
    let mut harness = Harness::new(1);
    let id = harness.add(waits(&[NotifyOn::Late], "http://a/"));
    let before = harness.records.clone();
    report_late(&mut harness, id, Version(1));
    harness.sent.clear();
    harness.records = before;
    harness.restart();
    assert_eq!(harness.sent, []);
    report_late(&mut harness, id, Version(1));
    assert_eq!(harness.sent.len(), 1);
}
