//! `scontrol show`: one record for each job, node or partition, in lines of `Key=value`.

use gpool_compat::testing::expanded;

#[test]
fn lists_of_nodes_are_written_out() {
    assert_eq!(expanded("lab1,lab2"), ["lab1", "lab2"]);
    assert_eq!(expanded("n[08-10,12]-x,y"), ["n08-x", "n09-x", "n10-x", "n12-x", "y"]);
}
