//! Questions to the agent: growth above the grant.

use std::time::Duration;

use gpool_ledger::{Answer, Ledger, Question, QuestionSocket, Wish};

use crate::rig::{GIB, MIB, Machine, OK, OUT_OF_MEMORY, Program, counted, share, until};

fn ready(machine: &Machine) -> Option<Program> {
    let mut program = machine.program("dlsym")?;
    program.ready();
    Some(program)
}

fn question(asks: &QuestionSocket) -> Question {
    let mut found = None;
    until("a question", || {
        found = asks.next().unwrap();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn growth_is_granted_after_a_wait() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    program.send(&format!("alloc {}", 3 * GIB));
    let mut question = question(&asks);
    assert_eq!(question.pid, program.pid());
    let Wish::Memory { device: 0, bytes, .. } = question.wish else { panic!("another wish") };
    assert_eq!(bytes, 3 * GIB);
    question.answer(Answer::Wait(Duration::from_secs(60))).unwrap();
    ledger.grant(0, 4 * GIB);
    question.answer(Answer::Yes).unwrap();
    assert!(program.line().starts_with("0 "));
    assert_eq!(counted(&ledger), 3 * GIB);
}

#[test]
fn a_refusal_is_out_of_memory() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    program.send(&format!("alloc {}", 2 * GIB));
    question(&asks).answer(Answer::No).unwrap();
    assert_eq!(program.line(), "2 0");
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn a_yes_without_a_grant_is_asked_again_a_few_times() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    program.send(&format!("alloc {}", 2 * GIB));
    for _ in 0..8 {
        question(&asks).answer(Answer::Yes).unwrap();
    }
    assert_eq!(program.line(), "2 0");
    assert!(asks.next().unwrap().is_none());
}

#[test]
fn no_agent_means_no_growth() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let Some(mut program) = ready(&machine) else { return };
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY, "never listened");
    drop(ledger.listen(None).unwrap());
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY, "stopped listening");
    assert_eq!(program.code(&format!("alloc {GIB}")), OK, "what is granted");
}

#[test]
fn requested_memory_that_is_lent_is_awaited_also_without_agent() {
    let machine = Machine::new();
    let ledger = machine.ledger(2 * GIB, 4 * GIB);
    ledger.grant(0, 0);
    ledger.wait_for_request(Duration::from_secs(60));
    let Some(mut program) = ready(&machine) else { return };
    program.send(&format!("alloc {GIB}"));
    // The first agent ends before its answer.
    drop(question(&ledger.listen(None).unwrap()));
    let asks = ledger.listen(None).unwrap();
    let mut question = question(&asks);
    assert!(!question.is_gone());
    ledger.grant(0, GIB);
    question.answer(Answer::Yes).unwrap();
    assert!(program.line().starts_with("0 "));
    // Above the request nothing waits without agent.
    drop(asks);
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY);
}

#[test]
fn a_process_that_ends_while_it_waits_asks_no_more() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    program.send(&format!("alloc {}", 3 * GIB));
    let question = question(&asks);
    assert!(!question.is_gone());
    program.kill();
    until("the end is seen", || question.is_gone());
}

#[test]
fn a_silent_agent_means_no_growth() {
    let machine = Machine::new();
    let shares = [share(0, GIB, 4 * GIB)];
    let short = Duration::from_millis(50);
    let ledger = Ledger::create(&machine.path("ledger"), &shares, short, None).unwrap();
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB)), OUT_OF_MEMORY);
    program.send(&format!("alloc {}", 2 * GIB));
    let mut question = question(&asks);
    let _ = question.answer(Answer::Wait(short));
    assert_eq!(program.line(), "2 0", "another answer did not follow");
}

#[test]
fn an_agent_that_ends_before_its_answer_means_no_growth() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    program.send(&format!("alloc {}", 2 * GIB));
    drop(question(&asks));
    assert_eq!(program.line(), "2 0");
}

#[test]
fn a_new_agent_opens_the_ledger_and_answers() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let Some(mut program) = ready(&machine) else { return };
    program.get(&format!("alloc {GIB}"));
    let shares = ledger.shares();
    drop(ledger);
    let ledger = Ledger::open(&machine.path("ledger")).unwrap();
    assert_eq!(ledger.shares(), shares);
    assert_eq!(counted(&ledger), GIB);
    let asks = ledger.listen(None).unwrap();
    program.send(&format!("alloc {GIB}"));
    let mut question = question(&asks);
    ledger.grant(0, 4 * GIB);
    question.answer(Answer::Yes).unwrap();
    assert!(program.line().starts_with("0 "));
    assert_eq!(ledger.take_back_dead().unwrap(), []);
    program.kill();
    until("the driver sees the end", || machine.driver_memory(0) == 0);
    assert_eq!(ledger.take_back_dead().unwrap().len(), 1);
    assert_eq!(counted(&ledger), 0);
}

#[test]
fn memory_above_the_limit_is_not_asked_for() {
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 2 * GIB);
    let asks = ledger.listen(None).unwrap();
    let Some(mut program) = ready(&machine) else { return };
    assert_eq!(program.code(&format!("alloc {}", 2 * GIB + MIB)), OUT_OF_MEMORY);
    assert!(asks.next().unwrap().is_none());
}

#[test]
fn a_smaller_limit_only_denies_growth() {
    let machine = Machine::new();
    let ledger = machine.ledger(2 * GIB, 2 * GIB);
    let Some(mut program) = ready(&machine) else { return };
    let address = program.get(&format!("alloc {GIB}"));
    ledger.resize(0, GIB / 2, GIB / 2);
    assert_eq!(ledger.shares()[0].granted, GIB / 2);
    assert_eq!(program.code(&format!("alloc {MIB}")), OUT_OF_MEMORY);
    assert_eq!(program.code(&format!("free {address}")), OK);
    assert_eq!(program.code(&format!("alloc {MIB}")), OK);
}

#[test]
fn other_programs_at_the_socket_do_no_harm() {
    use std::io::Write;
    let machine = Machine::new();
    let ledger = machine.ledger(GIB, 4 * GIB);
    let asks = ledger.listen(None).unwrap();
    let connect =
        || std::os::unix::net::UnixStream::connect(machine.path("ledger/socket")).unwrap();
    drop(connect());
    connect().write_all(&[7; 200]).unwrap();
    let silent = connect();
    for _ in 0..3 {
        assert!(asks.next().unwrap().is_none());
    }
    drop(silent);
    assert!(asks.next().unwrap().is_none());
}
