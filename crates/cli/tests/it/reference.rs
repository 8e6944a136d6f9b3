//! Parses references to jobs: `1842`, `1842.3`, `1842#2`, a name, `@`, `@~2`, `last`, `10-20:2`,
//! lists and `all`. [`crate::resolve`] finds the jobs.

use gpool_cli::reference::Reference;
use gpool_model::JobId;

fn id(number: u64) -> Reference {
    Reference::Id { job: JobId::single(number), attempt: None }
}

#[test]
fn every_form_is_read_and_written_back() {
    for text in [
        "1842",
        "1842.3",
        "1842#2",
        "@",
        "@~2",
        "10-20",
        "10-20:2",
        "all",
        "train",
        "3d-unet",
        "1842.3-7",
        "1842.0-98:2",
    ] {
        let reference: Reference = text.parse().expect(text);
        assert_eq!(reference.to_string(), text);
    }
    assert_eq!("last".parse(), Ok(Reference::Newest { back: 0 }));
    assert_eq!("1842_3".parse::<Reference>().expect("slurm form").to_string(), "1842.3");
    assert_eq!("18420000000003".parse::<Reference>().expect("an element").to_string(), "1842.3");
    assert_eq!("1842_3-7".parse::<Reference>().expect("so").to_string(), "1842.3-7");
    assert_eq!(Reference::list("1,2,3"), Ok(vec![id(1), id(2), id(3)]));
}

#[test]
fn what_names_no_job_is_refused() {
    for text in [
        "",
        "0",
        "1,,2",
        "@x",
        "@~",
        "@~-1",
        "20-10",
        "10-20:0",
        "1842#0",
        "1842#x",
        "1842#",
        "1-99999999999999999999",
        "1-9999999999",
        "1842.7-3",
        "1842.0-9:0",
        "1842.0-4294967296",
        "99999999999999999999",
    ] {
        assert!(Reference::list(text).is_err(), "{text}");
    }
}
