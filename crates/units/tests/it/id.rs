//! Tests of `id`.

use gpool_units::id::{JobId, NodeName, TaskId};

#[test]
fn plain_numbers_of_elements_are_unique_and_fit_32_bits() {
    for (id, plain) in [
        ("12", 12),
        ("12.3", (1 << 30) + 12 * 1024 + 3),
        ("1.0", (1 << 30) + 1024),
        ("1048575.1023", (1 << 31) - 1),
        ("12.1024", (1 << 31) + 12 * 16384 + 1024),
        ("65535.16383", (3 << 30) - 1),
        ("12.99999", (3 << 30) + (12 << 20) + 99_999),
        ("1023.1048575", u64::from(u32::MAX)),
        ("1048576.0", 1 << 29),
        ("5242879.127", (1 << 30) - 1),
        // Others have more bits.
        ("7.4294967294", 74_294_967_294),
        ("1048576.128", 10_485_760_000_000_128),
        ("65536.1024", 655_360_000_001_024),
        ("536870911", (1 << 29) - 1),
    ] {
        let id: JobId = id.parse().expect(id);
        assert_eq!((id.plain(), JobId::of_plain(plain)), (plain, id));
    }
    // Numbers of earlier versions.
    assert_eq!(JobId::of_plain(10_000_000_003).to_string(), "1.3");
    // No index is as large.
    assert_eq!(JobId::of_plain(19_999_999_999), JobId::single(19_999_999_999));
}

#[test]
fn only_plain_node_names_have_a_folder() {
    for name in ["n1", "lab1.example", "A-b_c", "3com", "a".repeat(63).as_str()] {
        assert_eq!(NodeName::new(name).folder(), Some(format!("nodes/{name}")));
    }
    for name in ["", ".", "..", "a/b", "/a", "1", "-a", "a b", "ä", "a\n", &"a".repeat(64)] {
        assert_eq!(NodeName::new(name).folder(), None, "{name:?}");
    }
}

#[test]
fn job_ids_round_trip() {
    for text in ["1842", "1842.3"] {
        let id: JobId = text.parse().expect("valid");
        assert_eq!(id.to_string(), text);
    }
    assert_eq!("1842_3".parse::<JobId>().expect("slurm form").to_string(), "1842.3");
    for text in ["", ".", "1.", "a", "1.x", "-1", "1842#1", "99999999999999999999"] {
        assert!(text.parse::<JobId>().is_err(), "{text}");
    }
}

#[test]
fn task_ids_round_trip() {
    for text in ["1842#2/0", "7.3#1/12"] {
        assert_eq!(text.parse::<TaskId>().expect("valid").to_string(), text);
    }
    for text in ["", "1842", "1842#1", "1842/1#0", "1#x/0", "#/"] {
        assert!(text.parse::<TaskId>().is_err(), "{text}");
    }
}
