//! Tests of `output`.

use gpool_model::output::{OutputStream, Pieces};

const FILES: [&[u8]; 2] = [b"abcdef", b"12345"];

fn read(pieces: &Pieces, mut position: u64) -> String {
    let mut text = String::new();
    while let Some((stream, from, n)) = pieces.find(position) {
        let file = FILES[usize::from(stream == OutputStream::Stderr)];
        let at = |offset: u64| usize::try_from(offset).expect("small");
        text.push_str(&String::from_utf8_lossy(&file[at(from)..at(from + n)]));
        position += n;
    }
    text
}

fn whole(lengths: [u64; 2], order: &str) -> String {
    read(&Pieces::both(lengths, order.as_bytes()), 0)
}

#[test]
fn output_bytes_follow_the_order_file() {
    assert_eq!(whole([6, 5], "2 0\n2 3\n5 3\n5 5\n"), "ab123cde45f");
    assert_eq!(whole([6, 5], "0 2\n"), "12abcdef345");
    assert_eq!(whole([6, 5], ""), "abcdef12345", "without an order file");
    assert_eq!(whole([0, 0], "2 0\n"), "");
    for position in 0..11 {
        let pieces = Pieces::both([6, 5], b"2 0\n2 3\n5 3\n5 5\n");
        assert_eq!(
            read(&pieces, position),
            "ab123cde45f"[usize::try_from(position).expect("small")..]
        );
    }
    assert_eq!(Pieces::one(OutputStream::Stderr, 3).find(1), Some((OutputStream::Stderr, 1, 2)));
}

#[test]
fn later_reads_begin_with_the_bytes_of_earlier_reads() {
    let order = "2 0\n2 3\n5 3\n5 5\n";
    let all = whole([6, 5], order);
    for lengths in [[0, 0], [1, 0], [2, 0], [2, 1], [2, 3], [3, 3], [5, 3], [5, 4], [5, 5]] {
        assert!(all.starts_with(&whole(lengths, order)), "{lengths:?}");
    }
}

#[test]
fn a_damaged_order_file_loses_no_bytes() {
    for order in ["9 9\n1 1\n", "1 1", "x\n", "5 5\n4 4\n", "99999999999999999999 1\n", "1\n2 2\n"]
    {
        let mut bytes = whole([6, 5], order).into_bytes();
        bytes.sort_unstable();
        assert_eq!(bytes, b"12345abcdef", "{order:?}");
    }
}
