//! Messages between server and agent: each reads the bytes that the other one's machine sends.

use std::fmt::Debug;

use gpool_protocol::{Answer, Decoder, Message, ToAgent, ToServer, encode};

/// Messages are the same in any split of the stream, and after they were written again.
pub fn check(input: &[u8]) {
    let Some((&step, bytes)) = input.split_first() else { return };
    check_as::<ToAgent>(step, bytes, |_| true);
    // Numbers with a fraction may change in their last digit.
    let is_exact = |message: &ToServer| {
        let inexact = matches!(
            message,
            ToServer::Answer { answer: Answer::DevicePoints(_) | Answer::Metrics(_), .. }
        );
        !inexact
    };
    check_as::<ToServer>(step, bytes, is_exact);
}

fn check_as<M>(step: u8, bytes: &[u8], is_exact: impl Fn(&M) -> bool)
where
    M: Message + PartialEq + Debug,
{
    let messages: Vec<M> = read(bytes, bytes.len().max(1));
    assert_eq!(messages, read(bytes, usize::from(step).max(1)));
    for message in messages.iter().filter(|it| is_exact(it)) {
        let frame = encode(message).expect("it was in a frame");
        assert_eq!(read::<M>(&frame, frame.len()), std::slice::from_ref(message));
    }
}

fn read<M: Message>(bytes: &[u8], step: usize) -> Vec<M> {
    let (mut decoder, mut found) = (Decoder::default(), Vec::new());
    for part in bytes.chunks(step) {
        decoder.push(part);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => found.push(message),
                Ok(None) => break,
                Err(gpool_protocol::FrameError::NotAMessage(_)) => {}
                Err(gpool_protocol::FrameError::TooLarge { .. }) => return found,
            }
        }
    }
    found
}
