//! The tree of projects, laid out in rows: parents before children, siblings side by side in the
//! order of the division. Quotas, shares and usage are stored elsewhere, by row. Rows never leave
//! memory; they mean nothing in another process.

use gpool_sched::fairshare::{Member, Tree};

fn member(parent: Option<usize>, priority: i32, created: u64, id: u64) -> Member<u64> {
    Member { parent, priority, created, id }
}

#[test]
fn siblings_stand_side_by_side_in_the_order_of_division() {
    let members = [
        member(Some(3), 0, 5, 0),
        member(Some(3), 0, 4, 9),
        member(Some(3), 7, 9, 1),
        member(None, 0, 2, 2),
        member(None, 0, 1, 3),
        member(Some(3), 0, 4, 8),
        member(Some(4), 0, 0, 0),
    ];
    let tree = Tree::new(&members).unwrap();
    let laid: Vec<usize> = (0..members.len()).map(|ix| tree.row(ix).ix()).collect();
    assert_eq!(laid, [6, 5, 3, 1, 0, 4, 2]);
    assert_eq!(tree.children(None), 0..2);
    assert_eq!(tree.children(Some(tree.row(3))), 3..7);
    assert_eq!(tree.departments(), [tree.row(4), tree.row(3)]);
    assert!(tree.is_leaf(tree.row(6)));
}

#[test]
fn paths_part_at_siblings() {
    // 0 ── 2 ── 4      1 ── 3
    //   └─ 5
    let members = [
        member(None, 0, 0, 0),
        member(None, 0, 0, 1),
        member(Some(0), 0, 0, 2),
        member(Some(1), 0, 0, 3),
        member(Some(2), 0, 0, 4),
        member(Some(0), 0, 0, 5),
    ];
    let tree = Tree::new(&members).unwrap();
    let row = |ix| tree.row(ix);
    assert_eq!(tree.parting(row(4), row(3)), Some((row(0), row(1))));
    assert_eq!(tree.parting(row(4), row(5)), Some((row(2), row(5))));
    assert_eq!(tree.parting(row(5), row(4)), Some((row(5), row(2))));
    assert_eq!(tree.parting(row(4), row(0)), None);
    assert_eq!(tree.parting(row(4), row(4)), None);
}

#[test]
fn a_list_that_is_no_tree_is_refused() {
    let none = member(Some(7), 0, 0, 0);
    assert!(Tree::new(&[none]).is_none());
    let cycle = [
        member(None, 0, 0, 0),
        member(Some(3), 0, 0, 1),
        member(Some(1), 0, 0, 2),
        member(Some(4), 0, 0, 3),
        member(Some(3), 0, 0, 4),
    ];
    assert!(Tree::new(&cycle).is_none());
    assert!(Tree::new::<u64>(&[]).unwrap().is_empty());
}
