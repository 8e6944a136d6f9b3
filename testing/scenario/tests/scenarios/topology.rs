//! Gangs that need nodes with one value of a label: a switch, a rack or any other.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

#[test]
fn a_gang_goes_to_one_switch_where_it_leaves_the_others_whole() {
    assert_snapshot!(answer("
        node n1  2 x h100  label switch=a
        node n2  2 x h100  label switch=b
        node n3  2 x h100  label switch=a
        node n4  2 x h100  label switch=b
        job  r  1           running n1[0]
        job  a  1 nodes 2   pending  topology same-switch
    "), @"start a n1[1] n3[0]");
}

#[test]
fn a_gang_waits_for_nodes_of_one_switch_although_others_are_free() {
    assert_snapshot!(answer("
        node n1  2 x h100  label switch=a
        node n2  2 x h100  label switch=b
        node n3  2 x h100  label switch=a
        node n4  2 x h100  label switch=b
        job  r  2           running n1[0,1] 1h  limit 2h
        job  s  2           running n2[0,1] 1h  limit 3h
        job  a  2 nodes 2   pending  topology same-switch
    "), @"
    plan  a n1[0,1] n3[0,1] in 3610s by limit
    wait  a nodes_not_free need 2 free 1 of 2 within a
    ");
}

#[test]
fn a_gang_that_prefers_a_rack_takes_other_nodes_if_no_rack_is_free() {
    assert_snapshot!(answer("
        node n1  2 x h100  label rack=a
        node n2  2 x h100  label rack=b
        node n3  2 x h100  label rack=a
        job  r  2           running n1[0,1]
        job  a  2 nodes 2   pending  topology prefer-same-rack
    "), @"start a n2[0,1] n3[0,1]");
}

#[test]
fn a_gang_that_prefers_a_rack_gets_one_if_it_is_free() {
    assert_snapshot!(answer("
        node n1  2 x h100  label rack=b
        node n2  2 x h100  label rack=a
        node n3  2 x h100  label rack=b
        job  a  2 nodes 2   pending  topology prefer-same-rack
    "), @"start a n1[0,1] n3[0,1]");
}

#[test]
fn a_label_that_the_agent_finds_counts_before_one_of_an_admin_with_the_short_name() {
    assert_snapshot!(answer("
        node n1  2 x h100  label rack=a  label gpool/rack=x
        node n2  2 x h100  label rack=a  label gpool/rack=y
        node n3  2 x h100  label rack=b  label gpool/rack=y
        job  a  2 nodes 2   pending  topology same-rack
    "), @"start a n2[0,1] n3[0,1]");
}

#[test]
fn nodes_without_the_label_are_no_domain() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        node n3  2 x h100  label rack=a
        job  a  2 nodes 2   pending  topology same-rack
    "), @"wait  a nodes_not_free need 2 free 1 of 1 within a");
}

#[test]
fn a_project_gets_its_guaranteed_gpus_back_within_one_switch() {
    assert_snapshot!(answer("
        project p  gpus 4
        project q  gpus 0
        node n1  2 x h100  label switch=a
        node n2  2 x h100  label switch=b
        node n3  2 x h100  label switch=a
        job  r  2           running n1[0,1] 1h  project q  preemptible
        job  s  2           running n2[0,1] 2h  project q  preemptible
        job  a  2 nodes 2   pending  project p  topology same-switch
    "), @"
    evict r reclaim for a
    claim a n1[0,1] n3[0,1]
    ");
}

#[test]
fn why_says_that_no_node_has_the_label() {
    assert_snapshot!(answer("
        node n1  2 x h100
        node n2  2 x h100
        job  a  2 nodes 2   pending  topology same-rack
        job  b  0 tasks 3   pending  topology same-rack
    "), @"
    wait  b tasks_not_free need 3 free 0 of 0 within
    wait  a nodes_not_free need 2 free 0 of 0 within
    ");
}

#[test]
fn why_names_the_nodes_that_are_closest() {
    assert_snapshot!(reasons("
        node n1  2 x h100  label switch=a
        node n2  2 x h100  label switch=b
        node n3  2 x h100  label switch=b
        node n4  2 x h100  label switch=b
        job  r  2           running n2[0,1]
        job  a  2 nodes 3   pending  topology same-switch
    "), @"a   nodes_not_free need 3 free 2 of 3 within b");
}
