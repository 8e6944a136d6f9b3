//! Frames of a stream between a command and a job: a process of root reads the bytes that any user
//! sends.

use gpool_wire::frame::{FRAME_MAX, Frame, Frames};

/// Frames are the same in any split of the stream, and after they were written again.
pub fn check(input: &[u8]) {
    let Some((&step, line)) = input.split_first() else { return };
    let whole = read(line, line.len().max(1));
    assert_eq!(whole, read(line, usize::from(step).max(1)));
    let mut again = Vec::new();
    for frame in &whole {
        frame.write(&mut again);
    }
    assert!(again.len() <= line.len().saturating_mul(3), "what is not text grows at most so much");
    assert_eq!(read(&again, FRAME_MAX).len(), whole.iter().filter(|it| is_kept(it)).count());
}

/// Whether the frame has bytes; empty frames are not sent.
fn is_kept(frame: &Frame) -> bool {
    match frame {
        Frame::Input(bytes) | Frame::Output(bytes) | Frame::Errors(bytes) => !bytes.is_empty(),
        _ => true,
    }
}

fn read(line: &[u8], step: usize) -> Vec<Frame> {
    let (mut frames, mut found) = (Frames::default(), Vec::new());
    for part in line.chunks(step) {
        frames.push(part);
        loop {
            match frames.next_frame() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(_) => return found,
            }
        }
    }
    found
}
