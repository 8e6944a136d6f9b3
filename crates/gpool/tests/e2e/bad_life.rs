//! Lines in the wrong place, and arrays of many elements.

use crate::harness::Cluster;

#[test]
fn directives_in_the_wrong_place_are_named() {
    let cluster = Cluster::new("sim:2xH100-80G");
    for (kind, line) in [
        ("gpool", "# GPOOL --gpus 2"),
        ("slurm", "#SBATCH --gres=gpu:2"),
        ("gflow", "# GFLOW --gpus 2"),
    ] {
        let name = format!("{kind}.sh");
        let text = format!("#!/bin/sh\necho hi\n{line}\n");
        std::fs::write(cluster.work().join(&name), text).unwrap();
        let ran = cluster.gpool(["submit", &name]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains(&format!("{name}:3: ")), "{kind}: {ran:?}");
        assert_eq!(cluster.job(ran.out.trim()).request.gpus_text(), "0", "{kind}");
        let strict = cluster.gpool(["submit", "--strict", &name]);
        strict.refused(2, &["is ignored", "without --strict"]);
    }
}

#[test]
fn an_array_with_a_line_of_a_file_for_each_of_100_000_elements_is_one_request() {
    let cluster = Cluster::new("none");
    let lines: String = (0..100_000).map(|n| format!("data/part-{n:08}.tar\n")).collect();
    assert!(lines.len() > 2 << 20);
    std::fs::write(cluster.work().join("lines"), lines).unwrap();
    let id = cluster.submit(["--hold", "--each-line", "lines", "--", "echo", "{item}"]);
    let array = cluster.job(&id).array.unwrap();
    assert_eq!(array.n_elements, 100_000);
}
