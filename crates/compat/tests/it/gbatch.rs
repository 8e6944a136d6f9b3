//! `gbatch`: submits a script or a command.

use gpool_compat::testing::with_task_id;

#[test]
fn the_number_of_an_element_is_put_into_arguments_by_a_shell() {
    let line = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        with_task_id(&words).map(|command| command[2].clone())
    };
    assert_eq!(
        line(&["python", "a b.py", "--i", "$GFLOW_ARRAY_TASK_ID"]).as_deref(),
        Some("exec 'python' 'a b.py' '--i' \"$GFLOW_ARRAY_TASK_ID\"")
    );
    assert_eq!(
        line(&["p", "it's-${GFLOW_ARRAY_TASK_ID}.txt", "$HOME", ""]).as_deref(),
        Some("exec 'p' 'it'\\''s-'\"$GFLOW_ARRAY_TASK_ID\"'.txt' '$HOME' ''")
    );
    assert_eq!(line(&["python", "$HOME"]), None);
    assert_eq!(line(&["echo $GFLOW_ARRAY_TASK_ID"]), None);
}
