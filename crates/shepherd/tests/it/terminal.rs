//! The terminal of a job: the program gets the slave side, the shepherd keeps the master side. It
//! remembers the last output for clients that attach later.

use gpool_model::WindowSize;
use gpool_shepherd::testing::{REMEMBERED, open};

#[test]
fn remembered_output_begins_with_a_whole_line() {
    let (mut terminal, _slave) = open(WindowSize::default(), None).unwrap();
    terminal.note(b"first\nsecond\n");
    assert_eq!(terminal.scrollback(), b"first\nsecond\n");
    for _ in 0..REMEMBERED {
        terminal.note(b"a line\n");
    }
    assert!(terminal.scrollback().starts_with(b"a line\n"));
    assert!(terminal.scrollback().len() <= REMEMBERED);
    terminal.note(&vec![b'x'; 2 * REMEMBERED]);
    assert_eq!(terminal.scrollback().len(), REMEMBERED);
}

#[test]
fn a_terminal_has_the_size_that_was_set() {
    let (terminal, slave) = open(WindowSize { rows: 7, columns: 9 }, None).unwrap();
    let size = || {
        let size = rustix::termios::tcgetwinsize(&slave).unwrap();
        (size.ws_row, size.ws_col)
    };
    assert_eq!(size(), (7, 9));
    terminal.redraw(None);
    assert_eq!(size(), (7, 9));
    terminal.redraw(Some(WindowSize { rows: 3, columns: 4 }));
    assert_eq!(size(), (3, 4));
}
