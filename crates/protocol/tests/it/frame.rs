//! Frames, in whatever pieces they arrive.

use gpool_protocol::{
    Answer, Decoder, FRAME_BYTES_MAX, FileAnswer, FrameError, Message, OutputPart, Question,
    QuestionId, ToAgent, ToServer, encode,
};

fn message(n: u64) -> ToAgent {
    ToAgent::Question { id: QuestionId(n), question: Question::MigInstances { change: None } }
}

fn output(n: u8) -> ToServer {
    let part = OutputPart::Bytes { offset: 5, bytes: vec![n; usize::from(n)] };
    let answer = Answer::Files(FileAnswer::Output(part));
    ToServer::Answer { id: QuestionId(1), answer }
}

/// The frame of a text without a body.
fn frame(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    [&length, &[0; 4], text.as_bytes()].concat()
}

/// Sends messages in pieces of every length.
fn arrive<M: Message + PartialEq + std::fmt::Debug>(messages: &[M]) {
    let bytes: Vec<u8> = messages.iter().flat_map(|it| encode(it).unwrap()).collect();
    for length in 1..=bytes.len() {
        let (mut decoder, mut read) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(length) {
            decoder.push(piece);
            while let Some(message) = decoder.next_message::<M>().unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages, "pieces of {length} bytes");
    }
}

#[test]
fn messages_arrive_whole_in_whatever_pieces_their_bytes_come() {
    arrive(&(0..5).map(message).collect::<Vec<_>>());
    arrive(&[0, 10, 255, 1].map(output));
}

#[test]
fn a_body_travels_as_it_is() {
    let frame = encode(&output(255)).unwrap();
    assert!(frame.ends_with(&[255; 255]));
    assert!(!String::from_utf8_lossy(&frame).contains("255"), "it is not in the JSON");
}

#[test]
fn a_message_that_cannot_be_read_is_skipped() {
    let mut decoder = Decoder::default();
    decoder.push(&frame(r#"{"teleport": {}}"#));
    decoder.push(&encode(&message(1)).unwrap());
    let error = decoder.next_message::<ToAgent>().unwrap_err();
    assert!(matches!(error, FrameError::NotAMessage(_)), "{error}");
    assert!(error.to_string().contains("teleport"), "{error}");
    assert_eq!(decoder.next_message::<ToAgent>().unwrap(), Some(message(1)));
    assert_eq!(decoder.next_message::<ToAgent>().unwrap(), None);
}

#[test]
fn a_length_beyond_the_limit_is_refused_before_its_bytes_come() {
    let beyond = u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_be_bytes();
    for head in [[beyond, [0; 4]], [[0; 4], beyond]] {
        let mut decoder = Decoder::default();
        decoder.push(head.as_flattened());
        let error = decoder.next_message::<ToAgent>().unwrap_err();
        assert!(matches!(error, FrameError::TooLarge { .. }), "{error}");
    }
}
