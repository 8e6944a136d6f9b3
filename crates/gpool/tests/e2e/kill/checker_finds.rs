//! Checks that the checker finds each kind of violation: correct histories with one fault each.

use super::checker::violations;
use super::history::{Asked, Ended, Extended, Fate, History, Line, Noted, Told, Want};

fn asked(id: u64, want: Want, n_gpus: usize) -> Asked {
    Asked { id, name: format!("n{id}"), want, n_gpus, in_order: true, is_told: false }
}

fn ended(id: u64, state: &str, exit: Option<i32>, from_to: (u64, u64), devices: &[&str]) -> Ended {
    Ended {
        id,
        name: format!("n{id}"),
        user: "ada".to_owned(),
        state: state.to_owned(),
        cause: None,
        why: String::new(),
        exit,
        attempt: 1,
        started_ms: Some(from_to.0),
        ended_ms: from_to.1,
        limit_ms: None,
        devices: names(devices),
    }
}

fn names(devices: &[&str]) -> Vec<String> {
    devices.iter().map(|device| (*device).to_owned()).collect()
}

fn placed(id: u64, devices: &[&str]) -> Noted {
    Noted::Start { id, attempt: 1, node: "n1".to_owned(), devices: names(devices) }
}

fn start(id: u64, at: u64, devices: &[&str]) -> Line {
    Line::Start { id, attempt: 1, pid: 100, at, devices: names(devices) }
}

fn end(id: u64, at: u64, code: i32) -> Line {
    Line::End { id, attempt: 1, at, code }
}

/// Jobs 1 and 2 on one device after each other, 3 beside them, cancelled, 4 after 1 and never
/// started.
fn right() -> History {
    let mut never = ended(4, "cancelled", None, (0, 20), &[]);
    never.started_ms = None;
    never.cause = Some("dependency_failed".to_owned());
    History {
        asked: vec![
            asked(1, Want::Exit(vec![3]), 1),
            asked(2, Want::Exit(vec![0]), 1),
            Asked { in_order: false, ..asked(3, Want::Cancelled, 1) },
            asked(4, Want::After(1, 0), 0),
        ],
        ended: vec![
            ended(1, "failed", Some(3), (10, 20), &["A"]),
            ended(2, "succeeded", Some(0), (20, 40), &["A"]),
            ended(3, "cancelled", Some(143), (11, 30), &["B"]),
            never,
        ],
        journal: vec![
            placed(1, &["A"]),
            placed(3, &["B"]),
            Noted::Over { id: 1 },
            placed(2, &["A"]),
            Noted::Has { node: "n2".to_owned(), ids: Vec::new() },
            Noted::Has { node: "n1".to_owned(), ids: vec![2, 3] },
            Noted::Over { id: 3 },
            Noted::Over { id: 2 },
        ],
        trace: vec![
            start(1, 1, &["A"]),
            start(3, 1, &["B"]),
            end(1, 2, 3),
            start(2, 2, &["A"]),
            end(2, 4, 0),
        ],
        outputs: [1, 2].map(|id| (id, format!("out of n{id}\n"))).into(),
        ..History::default()
    }
}

/// Adds one fault, and expects a violation with these words.
#[track_caller]
fn finds(words: &str, doctor: impl FnOnce(&mut History)) {
    let mut history = right();
    doctor(&mut history);
    let found = violations(&history);
    assert!(found.iter().any(|line| line.contains(words)), "{words:?} is not in {found:#?}");
}

#[test]
fn a_correct_history_has_no_violations() {
    assert_eq!(violations(&right()), [""; 0]);
}

#[test]
fn lost_and_extra_jobs_are_found() {
    finds("job 2 (n2) was acknowledged and is lost", |it| drop(it.ended.remove(1)));
    finds("job 3 (n3) is there and nobody was told", |it| drop(it.asked.remove(2)));
    finds("id 1 was given to n1 and to n2", |it| it.asked[1].id = 1);
    finds("id 1 was given to n1 and is n9", |it| it.ended[0].name = "n9".to_owned());
    finds("job 2 ended twice", |it| it.ended.push(it.ended[1].clone()));
    finds("job 5 lives on", |it| it.living.push(5));
    finds("left behind: process 7", |it| it.left.push("process 7".to_owned()));
    finds("the store is not sound", |it| it.unsound = Some("a hole".to_owned()));
}

#[test]
fn a_wrong_end_is_found() {
    finds("ended wrongly", |it| it.ended[0].exit = Some(4));
    finds("ended wrongly", |it| it.ended[1].state = "failed".to_owned());
    finds("ended wrongly", |it| it.ended[2].state = "timed_out".to_owned());
    finds("ended wrongly", |it| it.asked[1].want = Want::TimedOut);
    // The job depends on the success of the one before.
    finds("ended wrongly", |it| it.ended[3] = ended(4, "succeeded", Some(0), (21, 22), &[]));
    finds("job 1 wrote \"\"", |it| drop(it.outputs.remove(&1)));
}

#[test]
fn only_a_job_without_its_shepherd_may_be_lost() {
    let lose = |it: &mut History| {
        it.ended[1].state = "lost".to_owned();
        it.ended[1].cause = Some("shepherd_ended".to_owned());
        it.ended[1].exit = None;
    };
    finds("ended wrongly (shepherd: None)", lose);
    finds("ended wrongly (shepherd: Some(Kept))", |it| {
        lose(it);
        it.killed.insert(2, Fate::Kept);
    });
    finds("ended wrongly (shepherd: Some(Lost))", |it| it.killed = [(2, Fate::Lost)].into());
    for fate in [Fate::Lost, Fate::Any] {
        let mut history = right();
        lose(&mut history);
        history.killed.insert(2, fate);
        assert_eq!(violations(&history), [""; 0], "{fate:?}");
    }
}

#[test]
fn jobs_that_ran_twice_or_never_are_found() {
    finds("job 1 ran twice", |it| it.trace.push(start(1, 5, &["A"])));
    finds("job 9 ran and is not there", |it| it.trace.push(start(9, 5, &[])));
    finds("job 1 wrote of its run None", |it| it.trace.retain(|line| !is_of(line, 1)));
    finds("job 1 wrote of its run", |it| it.trace[2] = end(1, 2, 4));
    finds("job 4 ran although", |it| it.trace.push(start(4, 5, &[])));
    finds("in an attempt that it never had", |it| {
        let (pid, devices) = (100, names(&["A"]));
        it.trace.push(Line::Start { id: 1, attempt: 2, pid, at: 5, devices });
    });
}

fn is_of(line: &Line, wanted: u64) -> bool {
    match line {
        Line::Start { id, .. } | Line::End { id, .. } | Line::Shared { id, .. } => *id == wanted,
    }
}

#[test]
fn a_device_that_was_given_twice_is_found() {
    // By the journal alone, the archive alone, and the programs alone.
    finds("A was given to 2 while 1 held it", |it| drop(it.journal.remove(2)));
    finds("A: 2 started before 1 had ended", |it| it.ended[0].ended_ms = 25);
    finds("A: 2 at 2, and 1 since 1", |it| it.trace.swap(2, 3));
    finds("A was in use when 2 started on it", |it| {
        it.trace.push(Line::Shared { id: 2, device: "A".to_owned() });
    });
    // Also a job with other devices than it was allocated.
    finds("job 1 was given", |it| it.trace[0] = start(1, 1, &["B"]));
    finds("job 3 was given", |it| it.journal[1] = placed(3, &["C"]));
}

#[test]
fn a_younger_job_before_an_older_one_is_found() {
    finds("1 was placed after 2", |it| it.journal.swap(0, 3));
}

/// Job 2 has a limit of 100 ms, extended twice by 10 ms; one of the two was acknowledged.
fn extend(history: &mut History, limit_ms: u64, noted: &[(u64, u64)]) {
    history.ended[1].limit_ms = Some(limit_ms);
    history.limits.insert(2, noted.to_vec());
    history.extended.push(Extended { id: 2, before: 100, by: 10, n_told: 1, n_tried: 2 });
}

#[test]
fn a_limit_that_grew_too_often_or_too_little_is_found() {
    for (limit, noted) in [(110, &[][..]), (110, &[(2, 110)]), (120, &[(2, 110), (3, 120)])] {
        let mut history = right();
        extend(&mut history, limit, noted);
        assert_eq!(violations(&history), [""; 0], "{limit} {noted:?}");
    }
    finds("has a limit of 100 ms", |it| extend(it, 100, &[]));
    finds("has a limit of 115 ms", |it| extend(it, 115, &[]));
    finds("has a limit of 130 ms", |it| extend(it, 130, &[]));
    finds("was given a limit twice", |it| extend(it, 120, &[(2, 110), (2, 110)]));
    finds("was given a limit twice", |it| extend(it, 120, &[(2, 110), (3, 110)]));
    finds("and not [(2, 120)]", |it| extend(it, 110, &[(2, 120)]));
}

#[test]
fn an_end_without_a_message_is_found() {
    let tell = |history: &mut History, messages: &[&str]| {
        history.asked[1].is_told = true;
        let told = |message: &&str| Told { message: (*message).to_owned(), job: 2 };
        history.told.extend(messages.iter().map(told));
    };
    for messages in [&["a"][..], &["a", "a"]] {
        let mut history = right();
        tell(&mut history, messages);
        assert_eq!(violations(&history), [""; 0], "{messages:?}");
    }
    finds("of the end of 2 there are 0 messages", |it| tell(it, &[]));
    finds("of the end of 2 there are 2 messages", |it| tell(it, &["a", "b"]));
}
