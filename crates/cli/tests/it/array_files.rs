//! Values of array elements from files: lines, JSON, CSV.

use gpool_cli::array_files::{items, table};

#[test]
fn tables_are_read_with_quotes_and_ragged_rows_refused() {
    let read = table("lr, seed\r\n0.1,1\r\n\"a,\"\"b\",2\n\n").expect("a table");
    assert_eq!(read.names, ["lr", "seed"]);
    assert_eq!(read.rows, [["0.1", "1"], ["a,\"b", "2"]]);
    for (text, why) in [
        ("a,b\n1\n", "line 2: it has 1 values"),
        ("a\n\"x\n1,2\n", "line 2: a quotation mark is not closed"),
        ("a\n\"x\ny\"\n1,2\n", "line 4: it has 2"),
        ("a,b\n", "no rows"),
    ] {
        let error = table(text).expect_err(text);
        assert!(error.contains(why), "{text:?}: {error}");
    }
}

#[test]
fn items_are_an_array_or_lines() {
    assert_eq!(items("[1, \"a\"]").expect("an array").len(), 2);
    assert_eq!(items("{\"a\": 1}\n\n\"b\"\n").expect("lines").len(), 2);
    assert_eq!(items("[1]\n[2]\n").expect("lines of arrays").len(), 2);
    assert!(items("[1, 2").expect_err("open").contains("line 1"));
    assert!(items("1\nx\n").expect_err("not JSON").contains("line 2"));
}
