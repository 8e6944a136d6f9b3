//! The command line of a submission.

use gpool_compat::testing::{SACCT_FIELDS, origin};

#[test]
fn values_of_variables_are_left_out() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let line = |text: &str| origin("sbatch", &words(text), None).line;
    assert_eq!(line("--export=ALL,A=1,B a.sh x=1"), "sbatch --export=ALL,A=...,B a.sh x=1");
    assert_eq!(line("--export A=1 a.sh"), "sbatch --export A=... a.sh");
    assert_eq!(line("a.sh two\nlines"), "sbatch a.sh two lines");
    assert_eq!(origin("sbatch", &[], Some("/x/a.sh")).script.as_deref(), Some("/x/a.sh"));
    assert_eq!(origin("sbatch", &[], Some("-")).script, None);
}

/// The fields that `sacct --helpformat` lists, and those of older versions.
#[test]
fn every_field_of_slurm_is_known() {
    for name in include_str!("fields/sacct.txt").split_whitespace() {
        let is_known = SACCT_FIELDS.iter().any(|(known, ..)| known.eq_ignore_ascii_case(name));
        assert!(is_known, "sacct {name}");
    }
}
