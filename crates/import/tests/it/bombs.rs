//! Files that are made to cost time or memory, and files of wrong types, are refused or read, and
//! never end the program.

use gpool_import::{Import, Surroundings};

use crate::table::variable;

fn read(text: &str) -> Result<Import, String> {
    let surroundings = Surroundings { folder: "/home/ana/project", variable: &variable };
    Import::read(text, &surroundings).map_err(|error| error.to_string())
}

#[test]
fn aliases_that_multiply_are_refused() {
    let mut text = String::from("type: task\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let refusal = read(&text).unwrap_err();
    assert!(refusal.contains("more than 100000 values"), "{refusal}");
    let long = format!("type: task\na: &a {}\nb: [{}]\n", "x".repeat(100_000), "*a, ".repeat(1000));
    let refusal = read(&long).unwrap_err();
    assert!(refusal.contains("texts of more than 4194304 bytes"), "{refusal}");
}

#[test]
fn variables_that_multiply_are_refused() {
    let nested = "${A:-".repeat(1000) + &"}".repeat(1000);
    let compose = |word: &str| format!("services:\n  a: {{image: a, command: '{word}'}}\n");
    let refusal = read(&compose(&nested)).unwrap_err();
    assert!(refusal.contains("nested more than 8 deep"), "{refusal}");
    let refusal = read(&compose(&"$LONG".repeat(2000))).unwrap_err();
    assert!(refusal.contains("too long"), "{refusal}");
    let value = "x".repeat(10_000);
    let command = "$(A)".repeat(1000);
    let pod = format!(
        "kind: Pod\nspec:\n  containers:\n  - image: a\n    command: ['{command}']\n    \
         env: [{{name: A, value: {value}}}]\n"
    );
    let refusal = read(&pod).unwrap_err();
    assert!(refusal.contains("more than 524288 bytes"), "{refusal}");
}

#[test]
fn many_services_and_deep_values_are_refused() {
    let services: String =
        (0..1001).map(|ix| format!("  s{ix}: {{image: a, command: a}}\n")).collect();
    let refusal = read(&format!("services:\n{services}")).unwrap_err();
    assert!(refusal.contains("more than 1000 services"), "{refusal}");
    let deep = format!("type: task\nenv: {}", "[".repeat(10_000));
    assert!(read(&deep).is_err());
    assert!(read(&"#".repeat((1 << 20) + 1)).unwrap_err().contains("the limit is 1048576"));
}

/// Each value of each sample is replaced by values of other types; the answer is an import or an
/// error with a line.
#[test]
fn values_of_wrong_types_are_errors_with_a_line() {
    let others = ["", "[]", "{}", "[[{}]]", "{a: {b: c}}", "-1", "1e99", "true", "99999999999999"];
    let mut n_errors = 0;
    for (name, text) in crate::table::samples() {
        let lines: Vec<&str> = text.lines().collect();
        for (ix, line) in lines.iter().enumerate() {
            let Some((key, _)) = line.split_once(": ") else { continue };
            for other in others {
                let changed = format!("{key}: {other}");
                let mut all = lines.clone();
                all[ix] = &changed;
                if let Err(error) = read(&all.join("\n")) {
                    n_errors += 1;
                    assert!(error.starts_with("line "), "{name}: {changed}: {error}");
                }
            }
        }
    }
    assert!(n_errors > 500, "{n_errors}");
}
