//! Tests of `hostlist`.

use gpool_units::hostlist::nodes;
use gpool_units::id::NodeName;

#[test]
fn ranges_are_expanded() {
    for (text, names) in [
        ("lab1", "lab1"),
        ("lab2,lab1,lab2", "lab2 lab1"),
        ("node[1-3,7]", "node1 node2 node3 node7"),
        ("n[08-10]-ib,x", "n08-ib n09-ib n10-ib x"),
        ("r[1-2]n[1,3]", "r1n1 r1n3 r2n1 r2n3"),
    ] {
        let nodes = nodes(text).expect(text);
        let shown: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        assert_eq!(shown.join(" "), names, "{text}");
    }
}

#[test]
fn errors_name_the_position() {
    for (text, position) in [
        ("", 0),
        ("lab1,", 5),
        ("lab1,-x", 5),
        ("n[1-", 2),
        ("n[3-1]", 2),
        ("a,n[x]", 4),
        ("n[1-99999]", 2),
        ("n[1-4000],m[1-4000]", 10),
        ("n]", 0),
        ("a b", 0),
    ] {
        assert_eq!(nodes(text).expect_err(text).position, position, "{text}");
    }
}
