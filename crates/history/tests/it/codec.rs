//! Columns and compression.

use gpool_history::testing::{ABSENT, Packer, put_column, take_column};

#[test]
fn a_column_returns_as_it_was() {
    let columns: [&[u32]; 5] = [
        &[],
        &[ABSENT; 60],
        &[0, 1, 0, ABSENT, 500, 499],
        &[ABSENT - 1, 0, ABSENT - 1, ABSENT, 0],
        &[7; 60],
    ];
    let mut bytes = Vec::new();
    let mut last = 0;
    for column in columns {
        put_column(&mut bytes, column, &mut last);
    }
    let mut rest = bytes.as_slice();
    let mut last = 0;
    for column in columns {
        let mut found = vec![1; column.len()];
        take_column(&mut rest, &mut found, &mut last).unwrap();
        assert_eq!(found, column);
    }
    assert!(rest.is_empty());
}

#[test]
fn damaged_bytes_are_noticed() {
    let mut packer = Packer::new().unwrap();
    let bytes: Vec<u8> = (0..2000_u32).map(|n| (n * n % 251) as u8).collect();
    let packed = packer.pack(&bytes).unwrap();
    assert_eq!(packer.unpack(&packed).as_ref(), Some(&bytes));
    for ix in (0..packed.len()).step_by(7) {
        let mut damaged = packed.clone();
        damaged[ix] ^= 0x10;
        let found = packer.unpack(&damaged);
        // A bit of the header without meaning may differ.
        assert!(found.is_none() || found.as_ref() == Some(&bytes), "byte {ix}");
        assert_eq!(packer.unpack(&packed[..ix]), None);
    }
}
