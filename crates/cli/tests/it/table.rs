//! Tables as plain columns: no borders, two spaces between columns, widths as a terminal counts
//! them.

use gpool_cli::render::table::{Cell, Table};

fn table() -> Table {
    let mut table = Table::new(["ID", "NAME", "REASON"].map(str::to_owned).to_vec());
    table.push(vec!["1".into(), "训练".into(), "needs 4 free together, 2 are".into()]);
    table.push(vec!["1842".into(), "a\u{1b}[2J\n".into(), Cell::default()]);
    table
}

#[test]
fn columns_line_up_by_what_a_terminal_shows() {
    insta::assert_snapshot!(table().render(None, false), @r"
    ID    NAME        REASON
    1     训练        needs 4 free together, 2 are
    1842  a\x1b[2J\n
    ");
}

#[test]
fn only_the_last_column_is_cut_and_only_for_a_terminal() {
    insta::assert_snapshot!(table().render(Some(40), false), @r"
    ID    NAME        REASON
    1     训练        needs 4 free together…
    1842  a\x1b[2J\n
    ");
    assert!(table().render(Some(10), false).contains("2 are"));
}

#[test]
fn then_the_widest_is_cut_so_that_no_line_is_wrapped() {
    let mut table = Table::new(["ID", "NAME", "REASON"].map(str::to_owned).to_vec());
    table.push(vec!["1".into(), "a name of many words".into(), "needs four together".into()]);
    insta::assert_snapshot!(table.render(Some(34), false), @r"
    ID  NAME            REASON
    1   a name of man…  needs four to…
    ");
}

fn queue(projects: [&str; 2]) -> Table {
    let head = ["ID", "NAME", "PROJECT", "TIME", "REASON"];
    let mut table = Table::new(head.map(str::to_owned).to_vec());
    for (id, project) in ["1", "2"].into_iter().zip(projects) {
        let reason = Cell::new("4 GPUs needed together; lab1 has 2 free").whole();
        let name = Cell::new("a-name-of-many-letters");
        let project = Cell::new(project).common();
        table.push(vec![Cell::new(id).whole(), name, project, Cell::new("–"), reason]);
    }
    table
}

#[test]
fn columns_that_say_nothing_are_left_out_before_anything_is_cut() {
    let alike = queue(["red", "red"]);
    insta::assert_snapshot!(alike.render(Some(67), false), @r"
    ID  NAME                    REASON
    1   a-name-of-many-letters  4 GPUs needed together; lab1 has 2 free
    2   a-name-of-many-letters  4 GPUs needed together; lab1 has 2 free
    ");
    assert!(alike.render(Some(80), false).contains("PROJECT"), "there is room");
    assert!(alike.render(None, false).contains("PROJECT"), "a pipe has it all");
    assert!(queue(["red", "blue"]).render(Some(67), false).contains("PROJECT"));
}

#[test]
fn a_last_column_that_must_not_be_cut_goes_on_below() {
    insta::assert_snapshot!(queue(["red", "blue"]).render(Some(48), false), @r"
    ID  NAME      PROJECT  REASON
    1   a-name-…  red      4 GPUs needed together;
                           lab1 has 2 free
    2   a-name-…  blue     4 GPUs needed together;
                           lab1 has 2 free
    ");
}

#[test]
fn colors_change_no_widths() {
    let plain = table().render(None, false);
    let colored = table().render(None, true);
    assert_ne!(plain, colored);
    let stripped = colored.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, stripped);
}
