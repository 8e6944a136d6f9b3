//! Reasons as sentences for one reader.

use gpool_cli::render::clock::Clock;
use gpool_cli::render::reason::{brief, of_job, sentence};
use gpool_cli::render::view::View;
use gpool_wire::Reason;
use serde_json::json;

fn reason(code: &str, text: &str, from: &str) -> Reason {
    let reason = json!({"code": code, "blocking": true, "text": text, "from": from});
    serde_json::from_value(reason).unwrap()
}

fn read(of: impl Fn(&View<'_>) -> String) -> String {
    let clock = Clock::of(Some("Europe/Berlin".to_owned()));
    of(&View { clock: &clock, now: "2026-11-20T14:50:00Z".parse().unwrap(), me: "ana" })
}

#[test]
fn a_user_reads_you_and_others_read_the_name() {
    let text = "Its user holds 1 GPU, their limit (set by an admin)";
    let limit = reason("quota_user", text, "");
    let of = |user: &str| read(|view| sentence(&limit, user, view));
    assert_eq!(of("ana"), "You hold 1 GPU, your limit (set by an admin)");
    assert_eq!(of("bo"), "bo holds 1 GPU, their limit (set by an admin)");
}

#[test]
fn texts_of_the_server_say_you_to_their_reader() {
    for (text, addressed) in [
        (
            "waited 38s for capacity that job 1 (ana) used",
            "waited 38s for capacity that job 1 (you) used",
        ),
        (
            "It has a place, and starts when job 12.3 of ana (project default) has released GPU 0.",
            "It has a place, and starts when your job 12.3 (project default) has released GPU 0.",
        ),
        ("It is held by admin ana", "It is held by you"),
        ("paused by ana, job 3 of ana.", "paused by you, your job 3."),
        ("GPU 0 is reserved for ana (r1)", "GPU 0 is reserved for you (r1)"),
        // Other names, and words that contain the name.
        ("job 3 of anaïs (ana-2), paused by ana.b; banana by bo", ""),
        ("jobs 3 and 4 of ana; ana's job", ""),
    ] {
        let expected = if addressed.is_empty() { text } else { addressed };
        assert_eq!(read(|view| view.addressed(text)), expected);
    }
}

#[test]
fn times_are_local_and_a_past_beginning_is_left_out() {
    let text = "2 GPUs of lab1 are reserved for bob from Fri 20 Nov 14:00 UTC until Fri 20 Nov \
                17:51 UTC (r1)";
    let of =
        |from: &str| read(|view| sentence(&reason("reserved_for_other", text, from), "", view));
    assert_eq!(
        of("2026-11-20T14:00:00.000Z"),
        "2 GPUs of lab1 are reserved for bob until 18:51 (r1)"
    );
    let text = "lab1 has maintenance m1 from Sat 21 Nov 23:30 UTC until Fri 01 Jan 00:00 UTC";
    let later = reason("maintenance_soon", text, "2026-11-21T23:30:00.000Z");
    let text = read(|view| sentence(&later, "", view));
    assert_eq!(text, "lab1 has maintenance m1 from Sun 00:30 until 2027-01-01");
    let kept = "a note of 5 UTC and Xyz 99 Nov 10:00 UTC";
    assert_eq!(read(|view| sentence(&reason("gpu_unhealthy", kept, ""), "", view)), kept);
}

#[test]
fn the_subject_is_left_out_or_named() {
    let needs = reason("gpus_not_free", "It needs 4 GPUs, and 2 are free", "");
    let waits = reason("waits_for_job", "It waits for job 3 to succeed", "");
    assert_eq!(read(|view| brief(&needs, "", view)), "needs 4 GPUs, and 2 are free");
    let of = |reason: &Reason| read(|view| of_job("4", reason, "", view));
    assert_eq!(of(&needs), "job 4 waits. It needs 4 GPUs, and 2 are free");
    assert_eq!(of(&waits), "job 4 waits for job 3 to succeed");
}
