//! Tests of `indexes`.

use gpool_units::indexes::Indexes;
use gpool_units::positions::Positions;

fn indexes(text: &str) -> Indexes {
    text.parse().expect(text)
}

#[test]
fn indexes_parse_in_every_form() {
    for (text, all, shown) in [
        ("7", vec![7], "7"),
        ("0-3", vec![0, 1, 2, 3], "0-3"),
        ("0-7:3", vec![0, 3, 6], "0-6:3"),
        ("5-5:9", vec![5], "5"),
        ("7-9,1,3", vec![1, 3, 7, 8, 9], "1,3,7-9"),
        ("0-4:2,1-3:2", vec![0, 1, 2, 3, 4], "0-4"),
    ] {
        let read = indexes(text);
        let found: Vec<u32> = (0..read.len()).filter_map(|at| read.at(at)).collect();
        assert_eq!(found, all, "{text}");
        assert_eq!(read.to_string(), shown, "{text}");
        for (at, index) in (0..).zip(&all) {
            assert_eq!(read.position(*index), Some(at), "{text}");
        }
        assert_eq!(read.at(read.len()), None);
        assert_eq!(indexes(shown), read, "{text}");
    }
    assert_eq!(indexes("0-98:2").position(3), None);
    assert_eq!(indexes("0-999999").len(), 1_000_000);
}

#[test]
fn errors_in_indexes_name_the_position() {
    for (text, position) in [
        ("", 0),
        ("a", 0),
        ("1,", 2),
        ("1,,2", 2),
        ("5-3", 2),
        ("0-9:0", 4),
        ("0-9:", 4),
        ("-1", 0),
        ("1,2,1", 4),
        ("0-9,4-6", 4),
        ("0-1000000", 0),
        ("0-99999999999", 2),
        ("4294967295", 0),
        ("0-9%2", 3),
        ("0-9:2:3", 5),
        ("٣", 0),
    ] {
        let error = text.parse::<Indexes>().expect_err(text);
        assert_eq!(error.position, position, "{text}: {error}");
    }
}

#[test]
fn positions_select_indexes() {
    let some: Positions = [0, 1, 2, 4, 5].into_iter().collect();
    assert_eq!(indexes("0-98:2").of(&some).expect("some").to_string(), "0-4:2,8,10");
    assert_eq!(indexes("0-9").of(&Positions::default()), None);
}
