//! PMI-1 as MPICH's processes speak it.

use gpool_step::pmi::{Answer, Pmi};

/// The line that only the process itself gets.
fn own(answer: Answer) -> String {
    assert_eq!((answer.lines.len(), answer.abort), (1, None), "{answer:?}");
    answer.lines.into_iter().next().unwrap().1
}

#[test]
fn processes_find_each_other_by_keys_and_a_barrier() {
    let mut pmi = Pmi::new(2);
    let init = own(pmi.answer(0, "cmd=init pmi_version=1 pmi_subversion=1"));
    assert_eq!(init, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
    let maxes = own(pmi.answer(0, "cmd=get_maxes"));
    assert_eq!(maxes, "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=1024 rc=0");
    let put = own(pmi.answer(0, "cmd=put kvsname=gpool_step key=P0-card value=tcp#10.0.0.1$5"));
    assert_eq!(put, "cmd=put_result rc=0 msg=success");
    let early = own(pmi.answer(1, "cmd=get kvsname=gpool_step key=P1-card"));
    assert_eq!(early, "cmd=get_result rc=-1 msg=key_not_found value=unknown");
    assert_eq!(pmi.answer(1, "cmd=barrier_in"), Answer::default());
    let open = pmi.answer(0, "cmd=barrier_in");
    let line = "cmd=barrier_out rc=0".to_owned();
    assert_eq!(open.lines, [(1, line.clone()), (0, line)]);
    let got = own(pmi.answer(1, "cmd=get kvsname=gpool_step key=P0-card"));
    assert_eq!(got, "cmd=get_result rc=0 msg=success value=tcp#10.0.0.1$5");
    // The barrier is closed again.
    assert_eq!(pmi.answer(0, "cmd=barrier_in"), Answer::default());
    assert_eq!(pmi.answer(0, "cmd=barrier_in"), Answer::default(), "the same process twice");
}

#[test]
fn a_process_that_ends_within_the_program_is_noticed() {
    let mut pmi = Pmi::new(2);
    for rank in [0, 1] {
        pmi.answer(rank, "cmd=init pmi_version=1 pmi_subversion=1");
    }
    assert_eq!(own(pmi.answer(0, "cmd=finalize")), "cmd=finalize_ack rc=0");
    assert!(!pmi.has_left(0));
    assert!(pmi.has_left(1));
    assert!(!pmi.has_left(1), "it is told once");
    assert!(!pmi.has_left(7), "a program without MPI");
}

#[test]
fn bad_requests_are_refused_and_change_nothing() {
    let mut pmi = Pmi::new(1);
    let long = "v".repeat(1025);
    for (line, answer) in [
        ("cmd=init pmi_version=2 pmi_subversion=0", "rc=-1"),
        (&format!("cmd=put kvsname=x key=k value={long}"), "rc=-1 msg=value_too_long"),
        ("cmd=put kvsname=x value=v", "rc=-1 msg=bad_key"),
        ("cmd=spawn nprocs=1", "cmd=spawn rc=-1 msg=unknown_command"),
        ("", "rc=-1"),
        ("\u{0}= ==", "rc=-1"),
    ] {
        let said = own(pmi.answer(0, line));
        assert!(said.contains(answer), "{line:?}: {said}");
    }
    assert!(own(pmi.answer(0, "cmd=get kvsname=x key=k")).contains("rc=-1"));
    assert_eq!(pmi.answer(0, "cmd=abort exitcode=3").abort, Some(3));
}
