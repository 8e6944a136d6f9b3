//! Flags of `submit` in the comments before the first command of a script:
//! `# GPOOL --gpus 2 --time 1h`, and those of other schedulers, `# GFLOW` and `#SBATCH`. This
//! module only splits them into words; the parsers of flags read them.

use gpool_cli::directives::{DirectiveKind, LOOKED_AT, UnclosedQuote, find};

fn words(script: &str) -> Vec<(usize, Vec<String>)> {
    let found = find(script.as_bytes()).expect("quotes are closed");
    found.directives.into_iter().map(|directive| (directive.line, directive.words)).collect()
}

#[test]
fn directives_stand_in_the_leading_comments_only() {
    let script = "#!/bin/bash\n# GPOOL --gpus 2 --time 1h\n\n  #GPOOL -J train # why not\n\
                  # GPOOLS are fish\n#SBATCH --gres=gpu:1\n# SBATCH -t 1\necho\n\
                  # GPOOL --gpus 8\n";
    let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(
        words(script),
        [
            (2, own(&["--gpus", "2", "--time", "1h"])),
            (4, own(&["-J", "train"])),
            (6, own(&["--gres=gpu:1"]))
        ]
    );
    let found = find(script.as_bytes()).expect("quotes are closed");
    assert_eq!(found.too_late, [(9, DirectiveKind::Gpool)]);
    assert_eq!(found.comments, [(7, DirectiveKind::Sbatch)]);
}

#[test]
fn lines_of_slurm_and_gflow_begin_in_the_first_column() {
    let kinds = |script: &[u8]| -> Vec<DirectiveKind> {
        let found = find(script).expect("fine");
        found.directives.into_iter().map(|directive| directive.kind).collect()
    };
    let gflow = b"#!/bin/sh\n# GFLOW --gpus 1\n#GFLOW --gpus 2\n  # GFLOW --gpus 3\n";
    assert_eq!(kinds(gflow), [DirectiveKind::Gflow]);
    let slurm = b"#!/bin/sh\n##SBATCH -t 1\n# SBATCH -t 1\n  #SBATCH -G 6\n\t#SBATCH -t 5\n";
    assert_eq!(kinds(slurm), []);
    let found = find(slurm).expect("fine");
    assert_eq!(found.comments, [3, 4, 5].map(|line| (line, DirectiveKind::Sbatch)));
    assert_eq!(kinds(b"#!/bin/sh\n  #GPOOL -g 1\n#SBATCHES\n"), [DirectiveKind::Gpool]);
}

#[test]
fn words_are_quoted_as_in_a_shell() {
    assert_eq!(
        words("# GPOOL --note 'it''s late' -e \"A=b \\\"c\\\"\" x\\ y ''\n")[0].1,
        ["--note", "its late", "-e", "A=b \"c\"", "x y", ""]
    );
    assert_eq!(find(b"#!/bin/sh\n# GPOOL --note 'x\n"), Err(UnclosedQuote { line: 2 }));
}

#[test]
fn only_the_start_of_a_script_is_looked_at() {
    let script = format!("{}\n# GPOOL --gpus 1\n", "#".repeat(LOOKED_AT));
    assert_eq!(words(&script), []);
    assert_eq!(words("# GPOOL --gpus 1\r\n")[0].1, ["--gpus", "1"]);
}
