//! Quotas of one model and of one pool: parts of the GPUs that there are.

use gpool_scenario::{answer, reasons};
use insta::assert_snapshot;

/// My project is guaranteed two H100: which GPUs do jobs get that ask for any?
#[test]
fn what_a_project_is_guaranteed_of_a_model_is_used_first() {
    assert_snapshot!(answer("
        node lab1  2 x a100-80g + 2 x h100-80g
        project red   gpus-of h100 2
        project blue  gpus 2
        job  r  1 x 2   pending 1h  project red
        job  b  1 x 2   pending     project blue
    "), @"
    start r1 lab1[2]
    start b1 lab1[0]
    start r2 lab1[3]
    start b2 lab1[1]
    ");
}

/// Others hold the H100 that my project is guaranteed, and A100 are free: do I get mine?
#[test]
fn a_guarantee_of_a_model_is_taken_back_in_devices_of_that_model() {
    assert_snapshot!(answer("
        node lab1  2 x a100-80g + 2 x h100-80g
        project red   gpus-of h100 2
        project blue  gpus 2
        job  b  1       running lab1[2] 1h  project blue  preemptible
        job  c  1       running lab1[3] 1h  project blue  preemptible
        job  r  h100:2  pending     project red
    "), @"
    evict c reclaim for r
    evict b reclaim for r
    claim r lab1[2,3]
    ");
}

/// May my project have only so many H100?
#[test]
fn a_limit_of_a_model_leaves_the_other_models() {
    assert_snapshot!(answer("
        node lab1  2 x a100-80g + 4 x h100-80g
        project red   gpus 6  limit-of h100 1
        job  h  h100:1 x 2     pending 2h  project red
        job  e  a100|h100:1    pending 1h  project red
        job  a  1 x 3          pending     project red
    "), @"
    start h1 lab1[2]
    start e lab1[0]
    start a1 lab1[1]
    wait  a2 ×2 quota_project red limit 1 H100 GPUs held 1 asked 1
    wait  h2 quota_project red limit 1 H100 GPUs held 1 asked 1
    ");
}

/// GPUs are idle that others are guaranteed: may a job have them that can not be taken back?
#[test]
fn what_can_not_be_taken_back_stays_off_the_guarantees_of_others() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 2 x h100-80g
        project red   gpus-of h100 1
        project blue  gpus 2
        job  n  1 x 2  pending 2h  project blue
        job  p  1      pending 1h  project blue  preemptible
    "), @"
    start n1 lab1[0]
    start n2 lab1[1]
    start p lab1[2]
    ");
}

/// Others hold what my project has in one pool: do they go while there is room elsewhere?
#[test]
fn nothing_is_taken_back_in_a_pool_while_there_is_room_elsewhere() {
    assert_snapshot!(answer("
        node big1    2 x h100-80g  pool big
        node small1  2 x h100-80g  pool small
        project red   gpus-in big 2
        project blue  gpus-in small 2
        job  b  2       running big1[0,1] 1h  project blue  preemptible
        job  r  1 x 3   pending     project red   preemptible
    "), @"
    start r1 small1[0]
    start r2 small1[1]
    wait  r3 gpus_not_free need 1 free 0
    ");
}

/// How much may a project hold in a pool?
#[test]
fn a_limit_in_a_pool_holds_for_jobs_that_may_be_anywhere() {
    assert_snapshot!(answer("
        node big1    4 x h100-80g  pool big
        node small1  1 x h100-80g  pool small
        project red   gpus 5  limit-in big 1
        job  r  1 x 3   pending  project red
    "), @"
    start r1 big1[0]
    start r2 small1[0]
    wait  r3 quota_project red limit 1 GPUs in pool big held 1 asked 1
    ");
}

/// Does a job that needs several GPUs still start on two models where models are counted?
#[test]
fn one_job_may_have_devices_of_several_models_and_counts_for_each() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g
        project red   gpus 0  limit-of h100 2
        project blue  gpus 2  limit-of h100 1
        job  b  2   pending 1h  project blue
        job  r  2   pending     project red   preemptible
    "), @"
    start b lab1[0,1]
    wait  r gpus_not_free need 2 free 0
    ");
}

/// When does a job start whose project has all the H100 that it may have?
#[test]
fn a_planned_start_keeps_to_limits_of_models() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 2 x h100-80g
        project red   gpus 3  limit-of h100 1
        job  h  h100:1  running lab1[1] 1h  limit 2h  project red
        job  a  a100:1  running lab1[0] 1h  limit 4h  project red
        job  r  1       pending           project red
    "), @"
    plan  r lab1[0] in 10810s by limit
    wait  r quota_project red limit 1 H100 GPUs held 1 asked 1
    ");
}

/// Why does my job wait while an H100 is free?
#[test]
fn who_waits_for_a_quota_of_a_model_is_told_which() {
    assert_snapshot!(reasons("
        node lab1  1 x a100-80g + 2 x h100-80g
        project red   gpus 3  limit-of h100 1
        job  h  h100:1  running lab1[1] 1h  project red
        job  a  a100:1  running lab1[0] 1h  project red
        job  r  1       pending     project red
    "), @"r   quota_project red limit 1 H100 GPUs held 1 asked 1");
}

/// Two departments are guaranteed more H100 than there are: what can each keep?
#[test]
fn guarantees_of_a_model_above_what_there_is_are_scaled() {
    assert_snapshot!(answer("
        node lab1  2 x h100-80g + 2 x a100-80g
        project red   gpus-of h100 2
        project blue  gpus-of h100 2
        job  r  h100:1 x 2   pending 1h  project red
        job  b  h100:1 x 2   pending     project blue
    "), @"
    start r1 lab1[0]
    start b1 lab1[1]
    wait  r2 quota_project red guaranteed 1 H100 GPUs held 1 asked 1
    wait  b2 quota_project blue guaranteed 1 H100 GPUs held 1 asked 1
    ");
}

/// Who borrows is older than who gets what his project has by right: does that hold anything up?
#[test]
fn a_younger_job_may_start_by_right_where_an_older_one_borrows() {
    assert_snapshot!(answer("
        node lab1  3 x a100-80g + 2 x h100-80g
        project red    gpus 4  gpus-of a100 2
        project green  gpus-of h100 1
        project blue   weight 3
        job  a  1       running lab1[0] 1h  project red  preemptible
        job  c  1       running lab1[1] 1h  project red  preemptible
        job  n  1       pending 2h  project red
        job  p  1       pending 1h  project red   preemptible
        job  z  a100:3  pending     project blue
    "), @"
    start n lab1[3]
    start p lab1[4]
    wait  z quota_project blue guaranteed 0 GPUs held 0 asked 3
    ");
}

/// One project is guaranteed an H100: what do the others have of the rest?
#[test]
fn what_is_left_of_a_model_stays_with_those_who_are_guaranteed_any_gpus() {
    assert_snapshot!(answer("
        node lab1  4 x h100-80g
        project red     gpus-of h100 1
        project blue    gpus 2
        project yellow  weight 9
        job  y  4  running lab1[0,1,2,3] 1h  project yellow  preemptible
        job  b  1 x 3  pending  project blue
    "), @"
    evict y reclaim for b1
    claim b1 lab1[0]
    claim b2 lab1[1]
    wait  b3 quota_project blue guaranteed 2 GPUs held 2 asked 1
    ");
}

/// One is guaranteed a model, another a pool, and the pool has that model: does either wait?
#[test]
fn guarantees_of_a_model_and_of_a_pool_hold_side_by_side() {
    assert_snapshot!(answer("
        node big1  4 x h100-80g  pool big
        project red    gpus-of h100 2
        project green  gpus-in big 2
        job  r  h100:1 x 3  pending 1h  project red
        job  g  1 x 3       pending     project green
    "), @"
    start r1 big1[0]
    start g1 big1[1]
    start r2 big1[2]
    start g2 big1[3]
    wait  r3 quota_project red guaranteed 2 GPUs held 2 asked 1
    wait  g3 quota_project green guaranteed 2 GPUs held 2 asked 1
    ");
}

/// A large job is entitled to GPUs that are in use: is a smaller one let in before it?
#[test]
fn who_can_not_borrow_has_the_time_kept_at_which_it_has_its_own() {
    assert_snapshot!(answer("
        node lab1  4 x a100-80g
        node lab3  2 x a100-80g
        node lab4  2 x a100-80g
        node lab5  1 x h100-80g
        project red    gpus 4
        project blue   gpus 4
        project green  gpus-of h100 1
        job  x  2  running lab1[0,1] 1h  limit 2h  project blue
        job  r  4  pending 2h  project red   preemptible
        job  b  2  pending     project blue
    "), @"
    start b lab3[0,1]
    plan  r lab1[0,1,2,3] in 3610s by limit
    wait  r gpus_not_free_together need 4 free 2 on lab1
    ");
}

/// Somebody leaves the H100 that I am to have: does another go for me as well?
#[test]
fn nobody_goes_while_what_is_wanted_is_being_left_in_another_way() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g
        project red   gpus-of h100 1
        project blue  weight 0
        job  s  1  stopping lab1[1] 1h  project blue
        job  b  1  running lab1[0] 1h   project blue  preemptible
        job  r  1  pending              project red
    "), @"
    plan  r lab1[1] in 10s by limit
    wait  r gpus_not_free need 1 free 0
    ");
}

/// My project has guarantees left, and another has priority: who is first on a model of which a
/// third is guaranteed some?
#[test]
fn a_word_about_one_model_changes_nobodys_turn_on_another() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g
        project red     gpus-of h100 1
        project blue    gpus 1
        project yellow  priority 5
        job  y  a100:1  pending 1h  project yellow  preemptible
        job  b  a100:1  pending     project blue
    "), @"
    start b lab1[0]
    wait  y gpus_not_free need 1 free 0
    ");
}

/// A job wants GPUs of two models together, and where they are free first it may not have them:
/// does it start where it may?
#[test]
fn devices_of_several_models_are_looked_for_in_every_pool() {
    assert_snapshot!(answer("
        node lab1  1 x a100-80g + 1 x h100-80g  pool big
        node lab2  1 x a100-80g + 1 x h100-80g
        project red   gpus 4  limit-in big 0
        job  r    2  pending  project red
    "), @"start r lab2[0,1]");
}

/// I have all the H100s that my project is guaranteed, another one has none yet: who goes first?
#[test]
fn who_has_all_that_it_is_guaranteed_of_a_part_stands_behind_who_has_not() {
    assert_snapshot!(answer("
        node lab1  2 x h100
        node lab2  2 x a100
        project red   gpus 2  gpus-of h100 1  priority 1
        project blue  gpus 2  gpus-of h100 1
        job  r  1       running lab1[0] 1h  project red
        job  b  1       running lab2[0] 1h  project blue
        job  x  1       running lab2[1] 1h
        job  s  1       pending             project red   preemptible
        job  c  1       pending             project blue  preemptible
    "), @"
    start c lab1[1]
    wait  s gpus_not_free need 1 free 0
    ");
}
