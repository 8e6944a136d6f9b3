//! The messages between agent and shepherd: lines of JSON. After the agent's first message come the
//! bytes that it announces.

use gpool_model::SignalTo;
use gpool_shepherd::testing::{ToShepherd, line, take_lines};

#[test]
fn complete_lines_are_read_and_invalid_ones_are_skipped() {
    let mut input = line(&ToShepherd::Acknowledge);
    input.extend(b"nonsense\n");
    input.extend(line(&ToShepherd::Signal { signal: 10, to: SignalTo::Job }));
    input.extend(b"{\"to_sh");
    let messages: Vec<ToShepherd> = take_lines(&mut input);
    assert_eq!(
        messages,
        [ToShepherd::Acknowledge, ToShepherd::Signal { signal: 10, to: SignalTo::Job }]
    );
    assert_eq!(input, b"{\"to_sh");
    assert!(take_lines::<ToShepherd>(&mut input).is_empty());
}
