//! Lines of the server's log.

use gpool::log::{LogFormat, line};

#[test]
fn an_event_is_one_line_and_bounded() {
    let forged =
        "WARN a sign-in failed error=x\n2026-11-27T00:00:00Z  INFO root signed in\x1b[2J\u{202e}\n";
    let text = line(forged.as_bytes(), LogFormat::Text);
    assert_eq!(text.matches('\n').count(), 1);
    assert!(text.contains("error=x\\n2026") && text.contains("\\u{1b}[2J\\u{202e}\n"), "{text}");
    let long = "y".repeat(1 << 20);
    let text = line(long.as_bytes(), LogFormat::Text);
    assert!(text.len() < 5000 && text.ends_with("…\n"), "{}", text.len());
    let text = line(long.as_bytes(), LogFormat::Json);
    assert_eq!(text, "{\"level\":\"WARN\",\"left_out_bytes\":1048576}\n");
}
