//! The page on security names a test for each line.

use std::fs;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn each_line_of_the_page_on_security_has_a_test() {
    let page = fs::read_to_string(Path::new(ROOT).join("docs/operating/security.md")).unwrap();
    let section = page.split("## Attackers and tests").nth(1).expect("the section");
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.contains("---"));
    let rows: Vec<&str> = rows.filter(|line| !line.ends_with("| test |")).collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let name = row.trim_end_matches(" |").rsplit('`').nth(1).unwrap_or_default();
        let (module, test) = name.split_once("::").unwrap_or_else(|| panic!("no test in {row}"));
        let folders = [
            "crates/gpool/tests/e2e",
            "crates/gpool/tests/it",
            "crates/listen/tests/it",
            "crates/control/tests/it",
            "crates/step/tests/it",
        ];
        let texts = folders.map(|folder| {
            fs::read_to_string(Path::new(ROOT).join(folder).join(format!("{module}.rs")))
        });
        let is_there = |text: &String| {
            text.contains(&format!("#[test]\nfn {test}("))
                || text.contains(&format!("#[tokio::test]\nasync fn {test}("))
        };
        assert!(texts.iter().flatten().any(is_there), "there is no test {name}");
    }
}
