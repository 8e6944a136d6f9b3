//! Frames, in whatever pieces they arrive.

use gpool_protocol::{Decoder, FRAME_BYTES_MAX, FrameError, Question, QuestionId, ToAgent, encode};

fn message(n: u64) -> ToAgent {
    ToAgent::Question { id: QuestionId(n), question: Question::MigInstances { change: None } }
}

#[test]
fn messages_arrive_whole_in_whatever_pieces_their_bytes_come() {
    let messages: Vec<ToAgent> = (0..5).map(message).collect();
    let bytes: Vec<u8> = messages.iter().flat_map(|it| encode(it).unwrap()).collect();
    for length in 1..=bytes.len() {
        let (mut decoder, mut read) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(length) {
            decoder.push(piece);
            while let Some(message) = decoder.next_message::<ToAgent>().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages, "pieces of {length} bytes");
    }
}

#[test]
fn a_message_that_cannot_be_read_is_skipped() {
    let mut decoder = Decoder::default();
    decoder.push(&encode(&serde_json::json!({"teleport": {}})).unwrap());
    decoder.push(&encode(&message(1)).unwrap());
    let error = decoder.next_message::<ToAgent>().unwrap_err();
    assert!(matches!(error, FrameError::NotAMessage(_)), "{error}");
    assert!(error.to_string().contains("teleport"), "{error}");
    assert_eq!(decoder.next_message::<ToAgent>().unwrap(), Some(message(1)));
    assert_eq!(decoder.next_message::<ToAgent>().unwrap(), None);
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
    let mut decoder = Decoder::default();
    decoder.push(&u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_be_bytes());
    let error = decoder.next_message::<ToAgent>().unwrap_err();
    assert!(matches!(error, FrameError::TooLarge { .. }), "{error}");
}
