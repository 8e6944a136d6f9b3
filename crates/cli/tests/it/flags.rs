//! Flags of a job that are not on the command line: `GPOOL_SUBMIT_…` variables and the directives
//! of a script.

use gpool_wire::JobCreate;

use gpool_cli::args::job_flags::JobFlags;
use gpool_cli::args::request_flags::RequestFlags;
use gpool_cli::failure::Result;
use gpool_cli::flags::{from_directives, from_variables};
use gpool_cli::script::Script;

fn variables(set: &[(&str, &str)]) -> Result<JobFlags> {
    from_variables(set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())))
}

fn script(text: &str) -> Script {
    Script { path: "train.sh".to_owned(), bytes: text.as_bytes().to_vec() }
}

#[test]
fn variables_are_defaults_of_flags() {
    let flags = variables(&[
        ("GPOOL_SUBMIT_GPUS", "a100:2"),
        ("GPOOL_SUBMIT_CLEAN_ENV", "1"),
        ("GPOOL_SUBMIT_HOLD", "0"),
        ("GPOOL_SUBMIT_PRIORITY", "-5"),
        ("GPOOL_SUBMIT_TIME", ""),
        ("GPOOL_JOB_ID", "12"),
    ])
    .expect("all are flags");
    let gpus = Some("a100:2".to_owned());
    let request = RequestFlags(JobCreate { gpus, priority: Some(-5), ..JobCreate::default() });
    assert_eq!(flags, JobFlags { request, clean_env: true, ..JobFlags::default() });
}

#[test]
fn a_wrong_variable_is_named_with_the_nearest() {
    insta::assert_snapshot!(
        variables(&[("GPOOL_SUBMIT_GPU", "1")]).expect_err("no flag").text(false), @r"
    error: the variable GPOOL_SUBMIT_GPU has no flag
      why  did you mean GPOOL_SUBMIT_GPUS?
      try  unset GPOOL_SUBMIT_GPU
      GP0213 · gpool help GP0213
    ");
    let failure = variables(&[("GPOOL_SUBMIT_MEM", "12Q")]).expect_err("no size");
    let start = "variable GPOOL_SUBMIT_MEM: --mem: \"12Q\" is not an amount of memory";
    assert!(failure.what().starts_with(start), "{}", failure.what());
    assert!(variables(&[("GPOOL_SUBMIT_HOLD", "perhaps")]).is_err());
}

#[test]
fn later_directives_win_and_lists_are_joined() {
    let text = "#!/bin/sh\n# GPOOL --gpus 2 -e A=1\n#GPOOL --gpus 1 -e A=2 --after 7\ntrue\n";
    let flags = from_directives(&script(text), &[]).expect("both are fine").own;
    assert_eq!(flags.request.0.gpus.as_deref(), Some("1"));
    assert_eq!(flags.after, ["7"]);
    let values: Vec<_> = flags.env.iter().filter_map(|v| v.value.as_deref()).collect();
    assert_eq!(values, ["1", "2"]);
}

#[test]
fn a_wrong_directive_is_named_by_its_line() {
    for (text, expected) in [
        ("#!/bin/sh\n\n# GPOOL --gpu 2\n", "train.sh:3: there is no flag --gpu"),
        ("#!/bin/sh\n# GPOOL --gpus -1\n", "train.sh:2: --gpus: \"-1\" is not a number of GPUs"),
        ("#!/bin/sh\n# GPOOL --note 'x\n", "train.sh:2: a quotation mark is not closed"),
        ("#!/bin/sh\n# GPOOL train\n", "train.sh:2: "),
    ] {
        let failure = from_directives(&script(text), &[]).expect_err(text);
        assert!(failure.what().starts_with(expected), "{}", failure.what());
        assert_eq!(failure.exit().0, 2);
    }
}

#[test]
fn the_command_line_wins_over_variables_and_these_over_directives() {
    let directives =
        from_directives(&script("#!/bin/sh\n# GPOOL --gpus 1 --time 1h --name a -e X=1\n"), &[])
            .expect("fine")
            .own;
    let variables =
        variables(&[("GPOOL_SUBMIT_GPUS", "2"), ("GPOOL_SUBMIT_TIME", "2h")]).expect("fine");
    let line = JobFlags::read(&["--gpus=3".to_owned()]).expect("it is a flag");
    let flags = line.or(variables).or(directives);
    assert_eq!(
        (flags.request.0.gpus.as_deref(), flags.request.0.time, flags.request.0.name.as_deref()),
        (Some("3"), Some("2h".into()), Some("a"))
    );
}
