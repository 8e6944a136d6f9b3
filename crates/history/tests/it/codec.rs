//! Columns and checksums.

use gpool_history::testing::{close, open, put_column, take_column};

#[test]
fn a_column_returns_as_it_was() {
    let columns: [&[Option<u64>]; 7] = [
        &[],
        &[None; 60],
        &[Some(7); 60],
        &[Some(0), Some(1), None, Some(500), Some(499)],
        &[Some(u64::MAX), Some(0), None],
        &[Some(u64::MAX); 3],
        &[None, Some(5), None, None, None, None, None, None, None],
    ];
    let mut bytes = Vec::new();
    for column in columns {
        put_column(&mut bytes, column.len(), &|ix| column[ix]);
    }
    let mut rest = bytes.as_slice();
    for column in columns {
        let mut found = vec![None; column.len()];
        take_column(&mut rest, column.len(), &mut |ix, value| found[ix] = Some(value)).unwrap();
        assert_eq!(found, column);
    }
    assert!(rest.is_empty());
    // Cut or changed bytes may give other values, but no panic.
    for ix in 0..bytes.len() {
        for damaged in [&bytes[..ix], &[&bytes[..ix], &[0xff], &bytes[ix + 1..]].concat()] {
            let mut rest = damaged;
            while take_column(&mut rest, 60, &mut |_, _| ()).is_some() {}
        }
    }
}

#[test]
fn a_checksum_shows_damage() {
    let bytes = close((0..2000_u32).map(|n| (n * n % 251) as u8).collect());
    assert!(open(&bytes).is_some_and(|it| it.len() == 2000));
    for ix in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[ix] ^= 0x10;
        assert_eq!(open(&damaged), None, "byte {ix}");
        assert_eq!(open(&bytes[..ix]), None);
    }
}
