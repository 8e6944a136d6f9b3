//! The protocol of a stream after `attach` and `exec`. Pure; both ends and the fuzzers use it.
//!
//! A frame is one byte for its kind, four bytes for the length (big-endian), then the content.
//! Readers skip frames of unknown kinds, so that later versions can add kinds.

use gpool_model::launch::WindowSize;
use gpool_wire::frame::{FRAME_MAX, Frame, Frames, NoFrame};

#[test]
fn frames_come_out_as_they_went_in_however_they_are_cut() {
    let frames = [
        Frame::Input(b"ls\n".to_vec()),
        Frame::InputEnd,
        Frame::Resize(WindowSize { rows: 50, columns: 300 }),
        Frame::Signal(2),
        Frame::Output(vec![0; 10]),
        Frame::Errors(b"e".to_vec()),
        Frame::Exit(-1),
        Frame::NotStarted("why".to_owned()),
    ];
    let mut line = Vec::new();
    for frame in &frames {
        frame.write(&mut line);
    }
    for step in [1, 3, line.len()] {
        let (mut read, mut found) = (Frames::default(), Vec::new());
        for part in line.chunks(step) {
            read.push(part);
            while let Some(frame) = read.next_frame().expect("frames") {
                found.push(frame);
            }
        }
        assert_eq!(found, frames);
    }
}

#[test]
fn what_is_long_goes_in_parts_and_what_is_strange_is_passed_over() {
    let mut line = vec![b'?', 0, 0, 0, 1, 7];
    Frame::Output(vec![1; FRAME_MAX + 1]).write(&mut line);
    let mut read = Frames::default();
    read.push(&line);
    assert_eq!(read.next_frame(), Ok(Some(Frame::Output(vec![1; FRAME_MAX]))));
    assert_eq!(read.next_frame(), Ok(Some(Frame::Output(vec![1]))));
    assert_eq!(read.next_frame(), Ok(None));
}

#[test]
fn what_is_no_frame_is_refused() {
    for line in [&[b'i', 1, 0, 0, 0][..], &[b's', 0, 0, 0, 1, 0], &[b'w', 0, 0, 0, 0]] {
        let mut read = Frames::default();
        read.push(line);
        assert_eq!(read.next_frame(), Err(NoFrame), "{line:?}");
    }
}
