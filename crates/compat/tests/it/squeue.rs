//! `squeue` and `sinfo`: their columns and formats.

use gpool_compat::testing::{Format, LONG, Part, SINFO_COLUMNS, SQUEUE_COLUMNS, START, USUAL};

/// The parts of a format in short form: text, or head, width and alignment.
fn shown<C>(format: &Format<C>) -> Vec<String> {
    let part = |part: &Part<C>| match part {
        Part::Text(text) => format!("{text:?}"),
        Part::Column { column, width, is_right } => {
            format!("{} {width:?}{}", column.2, if *is_right { " right" } else { "" })
        }
    };
    format.parts.iter().map(part).collect()
}

#[test]
fn formats_are_read_by_letters() {
    let format = Format::by_letters("%.18i|%j%%", SQUEUE_COLUMNS);
    assert_eq!(shown(&format), ["JOBID Exact(18) right", "\"|\"", "NAME Own", "\"%\""]);
    for format in [USUAL, LONG, START, "%all"] {
        assert!(Format::by_letters(format, SQUEUE_COLUMNS).unknown.is_empty(), "{format}");
    }
    // An unknown letter stays, and the rest is shown.
    let format = Format::by_letters("%i|%s|% j%", SQUEUE_COLUMNS);
    assert_eq!(format.unknown, ["s", " ", ""]);
    assert_eq!(shown(&format), ["JOBID Own", "\"|%s|% j%\""]);
}

#[test]
fn formats_are_read_by_names_with_suffixes() {
    let format = Format::by_names("JobID:|,Name:.10##,state:5, username", SQUEUE_COLUMNS);
    assert_eq!(
        shown(&format),
        [
            "JOBID Own",
            "\"|\"",
            "NAME Exact(10) right",
            "\"##\"",
            "STATE Exact(5)",
            "USER Exact(20)"
        ]
    );
    let format = Format::by_names("jobid:###turm###,shoes,tres-alloc:", SQUEUE_COLUMNS);
    assert_eq!(format.unknown, ["shoes"]);
    assert_eq!(shown(&format), ["JOBID Own", "\"###turm###\"", "TRES_ALLOC Own"]);
}

#[test]
fn cells_are_padded_cut_and_fitted() {
    let format = Format::by_letters("%#P|%3N|%.3D", SINFO_COLUMNS);
    let rows = ["default", "b"];
    let text = format.lines(true, &rows, |_, row| Some((*row).to_owned()));
    assert_eq!(text, "PARTITION|NOD|NOD\ndefault  |def|def\nb        |b  |  b\n");
    let format = Format::by_letters("%v", SQUEUE_COLUMNS);
    assert_eq!(format.lines(false, &[()], |_, ()| None), "(null)\n");
}

/// The letters and names that Slurm's `--helpformat` and `--helpFormat` list.
#[test]
fn every_letter_and_name_of_slurm_is_a_column() {
    for letter in "aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRStTuUvVwWxXyYzZ".chars() {
        let format = Format::by_letters(&format!("%{letter}"), SQUEUE_COLUMNS);
        assert!(format.unknown.is_empty(), "squeue %{letter}");
    }
    for letter in "aAbBcCdDeEfFgGhHiIlLmMnNoOpPrRsStTuUvVwXYzZ".chars() {
        let format = Format::by_letters(&format!("%{letter}"), SINFO_COLUMNS);
        assert!(format.unknown.is_empty(), "sinfo %{letter}");
    }
    let names = include_str!("fields/squeue.txt").split_whitespace();
    for name in names {
        assert!(Format::by_names(name, SQUEUE_COLUMNS).unknown.is_empty(), "squeue {name}");
    }
    for name in include_str!("fields/sinfo.txt").split_whitespace() {
        assert!(Format::by_names(name, SINFO_COLUMNS).unknown.is_empty(), "sinfo {name}");
    }
}
