//! Exits, the ways to preempt a job: requests and answers.

use gpool_wire::JobCreate;
use gpool_wire::exits::{Exits, checkpoint, checkpoint_text};

#[test]
fn a_checkpoint_is_read_as_it_is_shown() {
    for (text, shown) in
        [("USR1@2m", "USR1@120s"), ("sigusr2", "USR2"), ("90s", "TERM@90s"), ("TERM", "TERM")]
    {
        let read = checkpoint(text).expect(text);
        assert_eq!(checkpoint_text(&read), shown);
        assert_eq!(checkpoint(shown), Ok(read));
    }
    for wrong in ["", "USR3", "USR1@", "USR1@0s", "48h"] {
        assert!(checkpoint(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn what_a_job_allows_may_be_taken_back() {
    let job = |exits: &[&str], checkpoint: Option<&str>, preemptible| JobCreate {
        exits: exits.iter().map(|it| (*it).to_owned()).collect(),
        checkpoint: checkpoint.map(str::to_owned),
        preemptible,
        ..JobCreate::default()
    };
    let of = |job: &JobCreate| Exits::of(job).map(|it| (it.preemptible, it.exits.len()));
    assert_eq!(of(&job(&[], None, None)), Ok((None, 0)));
    assert_eq!(of(&job(&[], Some("USR1"), None)), Ok((Some(true), 1)));
    assert_eq!(of(&job(&["kill", "pause"], None, None)), Ok((Some(true), 2)));
    assert_eq!(of(&job(&["kill"], None, Some(false))), Ok((Some(false), 1)));
    assert!(of(&job(&["paus"], None, None)).is_err());
}
