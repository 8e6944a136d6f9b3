//! Reads a script to submit, and refuses files that can't run as one. The job keeps this copy:
//! later changes of the file do not affect it.

use gpool_cli::failure::Failure;
use gpool_cli::script::Script;

fn refused(bytes: &[u8]) -> Failure {
    Script::check("job.sh", bytes.to_vec()).expect_err("it is no script")
}

#[test]
fn what_is_no_script_is_refused_with_the_way_out() {
    insta::assert_snapshot!(refused(b"\x7fELF\x02").text(false), @r"
    error: job.sh is a program, not a script
      try  gpool submit -- ./job.sh
      GP0202 · gpool help GP0202
    ");
    insta::assert_snapshot!(refused(b"echo hi\n").text(false), @r"
    error: job.sh has no interpreter line
      why  its first line does not start with #!
      try  gpool submit -- sh job.sh
           add #!/bin/bash as its first line
      GP0202 · gpool help GP0202
    ");
    insta::assert_snapshot!(refused(b"#!/bin/bash\n#SBATCH -J x\r\necho\r\n").text(false), @r"
    error: job.sh has DOS line breaks (CR LF) instead of UNIX ones (LF)
      why  line 2 is the first; the kernel and shells read CR as text
      try  sed -i 's/\r$//' job.sh
      GP0202 · gpool help GP0202
    ");
    assert_eq!(refused(b" \n\n").what(), "job.sh is empty");
    assert_eq!(refused(b"").what(), "job.sh is empty");
    assert_eq!(refused(b"#!/bin/sh\n\0").what(), "job.sh is not a text file");
}

#[test]
fn a_file_without_an_interpreter_line_names_the_program_for_its_ending() {
    let refused = |name: &str| {
        Script::check(name, b"x: 1\n".to_vec()).expect_err("it is no script").text(false)
    };
    insta::assert_snapshot!(refused("src/train.py"), @r"
    error: src/train.py has no interpreter line
      why  its first line does not start with #!
      try  gpool submit -- python src/train.py
           add #!/usr/bin/env python3 as its first line
      GP0202 · gpool help GP0202
    ");
    insta::assert_snapshot!(refused("valohai.yaml"), @r"
    error: gpool does not read valohai.yaml
      why  it runs a command or a script: submit the command of a step
      try  gpool submit --gpus 1 -- COMMAND   (the command of the step)
           gpool help valohai
      GP0202 · gpool help GP0202
    ");
    for (name, tip) in [
        ("fit.R", "gpool submit -- Rscript fit.R"),
        ("a.jsonl", "gpool submit --from-jsonl a.jsonl"),
        ("a.ipynb", "-- jupyter execute a.ipynb"),
        ("conf.toml", "gpool submit -- COMMAND conf.toml   (the command that reads it)"),
        ("job", "gpool submit -- sh job"),
    ] {
        assert!(refused(name).contains(tip), "{}", refused(name));
    }
    assert!(!refused("-").contains("sh -"), "{}", refused("-"));
}

#[test]
fn files_that_can_not_be_read_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().to_str().expect("UTF-8").to_owned();
    assert!(
        Script::read(&path).expect_err("a folder").what().ends_with("is a directory, not a script")
    );
    insta::assert_snapshot!(
        Script::read("no-such-script").expect_err("missing").text(false), @r"
    error: there is no script no-such-script
      why  without --, the first word is the name of a script file
      try  gpool submit -- no-such-script …   (if it is a command)
      GP0201 · gpool help GP0201
    ");
    let large = folder.path().join("large");
    std::fs::write(&large, vec![b'#'; 600 * 1024]).expect("written");
    let failure = Script::read(large.to_str().expect("UTF-8")).expect_err("too large");
    assert_eq!(failure.exit().0, 2);
}

#[test]
fn a_script_is_kept_as_it_is() {
    let script = Script::check("a/b.sh", b"#!/bin/sh\necho hi\n".to_vec()).expect("fine");
    assert_eq!(script.to_wire().text.as_deref(), Some("#!/bin/sh\necho hi\n"));
    assert_eq!(script.job_name(), "b.sh");
    let latin = Script::check("b.sh", b"#!/bin/sh\n# caf\xe9\n".to_vec()).expect("fine");
    assert_eq!(latin.to_wire().text, None);
    assert!(latin.to_wire().base64.is_some());
}
