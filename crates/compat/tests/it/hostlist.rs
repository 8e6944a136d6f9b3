//! Lists of nodes: `lab[1-3,7],gpu1`.

use gpool_compat::testing::{compressed, expanded, sort_hosts};

#[test]
fn lists_of_nodes_are_written_out() {
    assert_eq!(expanded("lab1,lab2"), ["lab1", "lab2"]);
    assert_eq!(expanded("n[08-10,12]-x,y"), ["n08-x", "n09-x", "n10-x", "n12-x", "y"]);
}

#[test]
fn names_in_sequence_share_brackets() {
    for (names, list) in [
        ("lab-1,lab-2", "lab-[1-2]"),
        ("lab-1,lab-2,lab-4", "lab-[1-2,4]"),
        ("lab-2,lab-1,lab-10,a,b7,b08,b09,lab-1", "lab-[2,1,10],a,b[7,08-09],lab-1"),
        ("b09,b10,b099,b100", "b[09-10,099-100]"),
        ("9,10", "[9-10]"),
        ("gpu", "gpu"),
        ("a,b,a1", "a,b,a1"),
    ] {
        assert_eq!(compressed(&expanded(names)), list);
        assert_eq!(expanded(list), expanded(names), "{list}");
    }
    assert_eq!(compressed::<&str>(&[]), "");
    let mut names = expanded("b,a,lab-2,lab-1,lab-10,lab-1");
    sort_hosts(&mut names);
    assert_eq!(compressed(&names), "a,b,lab-[1,1-2,10]");
}
