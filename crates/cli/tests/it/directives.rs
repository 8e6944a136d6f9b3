//! The translation of other schedulers' flags, and the messages about flags without a counterpart.

use gpool_cli::flags::{OfScript, from_directives};
use gpool_cli::foreign::flag::{ParseOutcome, Spoken};
use gpool_cli::foreign::{gflow, slurm};
use gpool_cli::script::Script;

fn of(lines: &str) -> OfScript {
    from_directives(&script(lines), &[]).unwrap_or_else(|failure| panic!("{}", failure.text(false)))
}

fn script(lines: &str) -> Script {
    Script { path: "a.sh".to_owned(), bytes: format!("#!/bin/sh\n{lines}\ntrue\n").into_bytes() }
}

#[track_caller]
fn refused(lines: &str, words: &[&str]) {
    let failure = from_directives(&script(lines), &[]).expect_err(lines);
    let text = failure.text(false);
    assert_eq!(failure.exit().0, 2, "{text}");
    for word in words.iter().chain(&["a.sh:2"]) {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
}

/// The gpool flags that another scheduler's flags become.
fn words(spoken: &Spoken, line: &str) -> Vec<String> {
    let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let Ok(ParseOutcome::Args(said)) = spoken.read(&line) else { panic!("{line:?}") };
    let translated = match spoken.name {
        "sbatch" => slurm::translate::translate(&said.flags),
        _ => gflow::translate::translate(&said.flags),
    };
    let translated = translated.unwrap_or_else(|failure| panic!("{}", failure.text(false)));
    translated.words.into_iter().map(|(word, _)| word).collect()
}

/// Flags of sbatch, and the flags of gpool that they become.
const SBATCH_FLAGS: &[(&str, &str)] = &[
    ("-J x -A lab", "--name=x --project=lab --lenient"),
    ("--gres=gpu:a100:2", "--gpus=a100:2"),
    ("--gres=gpu:2", "--gpus=2"),
    ("--gres=gpu:NVIDIA_A100", "--gpus=nvidia-a100:1"),
    ("--gres=gpu:1g.10gb:1", "--gpus=1g.10gb:1"),
    ("--gres=gpu:h100_3g.40gb", "--gpus=h100-3g.40gb:1"),
    ("--gres=gpu:rtx2080ti:1", "--gpus=rtx-2080-ti:1"),
    ("--gpus=RTXA6000:2", "--gpus=rtx-a6000:2"),
    ("--gpus=nvidia_geforce_rtx_2080_ti:1", "--gpus=nvidia-geforce-rtx-2080-ti:1"),
    ("-G 4", "--gpus=4"),
    ("--gpus-per-node=h100:8", "--gpus=h100:8"),
    ("--gpus-per-task=1 -n 1", "--launcher=1 --gpus=1 --env=SLURM_GPUS_PER_TASK=1"),
    ("-c 8 --mem-per-cpu=2G", "--cpus=8 --mem=16384M --env=SLURM_MEM_PER_CPU=2048"),
    ("-G2 --cpus-per-gpu=4", "--gpus=2 --cpus=8 --env=SLURM_CPUS_PER_GPU=4"),
    ("-G2 --mem-per-gpu=10G", "--gpus=2 --mem=20480M --env=SLURM_MEM_PER_GPU=10240"),
    ("--tres-per-task=cpu=4,gres/gpu:a100:2", "--gpus=a100:2 --cpus=4 --env=SLURM_GPUS_PER_TASK=2"),
    ("--tres-per-task=gres/gpu=3", "--gpus=3 --env=SLURM_GPUS_PER_TASK=3"),
    ("--mem=4000", "--mem=4000M"),
    ("--mem=0", ""),
    ("-t 90", "--time=5400s"),
    ("-t 1:30", "--time=90s"),
    ("-t 2:00:00", "--time=7200s"),
    ("-t 1-12", "--time=129600s"),
    ("-t 1-0:30", "--time=88200s"),
    ("-t 2-00:00:30", "--time=172830s"),
    ("-t 0", ""),
    ("-t UNLIMITED", ""),
    (
        "-d afterok:1:2,afterany:3_4",
        "--after=ok:1,ok:2,end:3_4 --env=SLURM_JOB_DEPENDENCY=afterok:1:2,afterany:3_4",
    ),
    ("--dependency=afternotok:7", "--after=fail:7 --env=SLURM_JOB_DEPENDENCY=afternotok:7"),
    (
        "-d after:7+5,afterok:8",
        "--after=start:7+5m,ok:8 --env=SLURM_JOB_DEPENDENCY=after:7+5,afterok:8",
    ),
    ("--export=ALL,A=1", "--env=A=1 --env=SLURM_EXPORT_ENV=ALL,A=1"),
    ("--export=ALL,O=\"a,b\",C", "--env=O=a,b --env=C --env=SLURM_EXPORT_ENV=ALL,O=\"a,b\",C"),
    ("--export=NONE", "--clean-env --env=SLURM_EXPORT_ENV=NONE"),
    ("--export=A,B=2", "--clean-env --env=A --env=B=2 --env=SLURM_EXPORT_ENV=A,B=2"),
    (
        "-N 2 --ntasks-per-node=8 --gres=gpu:8",
        "--nodes=2 --launcher=16 --gpus=8 --env=SLURM_NTASKS_PER_NODE=8",
    ),
    ("-N 2 -n 15 -c 4 --mem=64G", "--nodes=2 --launcher=15 --cpus=32 --mem=65536M"),
    ("-N 2 -G 16", "--nodes=2 --launcher=2 --gpus=8"),
    ("-n 15", "--tasks=15 --launcher=15"),
    (
        "-n 4 --gpus-per-task=1",
        "--tasks=4 --launcher=4 --env=SRUN_GPUS_PER_TASK=1 --gpus=1 --env=SLURM_GPUS_PER_TASK=1",
    ),
    ("-n 4 -G 8 -c 2", "--tasks=4 --launcher=4 --gpus=2 --cpus=2"),
    ("-n 8 -G 4", "--launcher=8 --gpus=4"),
    (
        "-n 4 --gres=gpu:2 --mem-per-cpu=1G",
        "--launcher=4 --gpus=2 --mem=4096M --env=SLURM_MEM_PER_CPU=1024",
    ),
    (
        "--ntasks-per-node=4 --gpus-per-task=2",
        "--launcher=4 --env=SRUN_GPUS_PER_TASK=2 --gpus=8 --env=SLURM_GPUS_PER_TASK=2 --env=SLURM_NTASKS_PER_NODE=4",
    ),
    ("-n 16 --ntasks-per-node=8", "--nodes=2 --launcher=16 --env=SLURM_NTASKS_PER_NODE=8"),
    ("-N 2 --tasks-per-node=4", "--nodes=2 --launcher=8 --env=SLURM_NTASKS_PER_NODE=4"),
    ("-o o-%j.txt", "--stdout=o-%j.txt"),
    ("-o z_%4a_%06j_%3t_%J.out", "--stdout=z_%4a_%06j_000_%j.out"),
    ("-o no\\%j", "--stdout=no%%j"),
    ("--open-mode=append", "--open-mode=append"),
    ("-o %A_%a.o -e %x.e", "--stdout=%A_%a.o --stderr=%x.e"),
    ("--nice=50", "--priority=-50 --lenient"),
    ("--nice", "--priority=-100 --lenient"),
    ("--comment=hi -D /tmp -H -i in", "--note=hi --cwd=/tmp --hold --stdin=in"),
    ("--job x", "--name=x"),
    ("-b now+2hours", "--begin=now+7200s"),
    ("-b 16:00", "--begin=16:00"),
    ("--deadline=2030-01-01T00:00", "--deadline=2030-01-01T00:00"),
    (
        "-d afterok:1?afterany:2",
        "--after-one=ok:1,end:2 --env=SLURM_JOB_DEPENDENCY=afterok:1?afterany:2",
    ),
    ("--signal=B:TERM@120", "--signal-before=B:TERM@120s"),
    ("--signal=USR1", "--signal-before=S:USR1@60s"),
    ("--requeue", "--requeue"),
    ("--requeue --no-requeue", ""),
    ("--export=NONE --export=ALL", "--env=SLURM_EXPORT_ENV=ALL"),
    ("-d afterok:1 -d afterok:2", "--after=ok:2 --env=SLURM_JOB_DEPENDENCY=afterok:2"),
];

#[test]
fn flags_of_slurm_are_ours() {
    for (theirs, ours) in SBATCH_FLAGS {
        let expected: Vec<&str> = ours.split(' ').filter(|word| !word.is_empty()).collect();
        assert_eq!(words(&slurm::flags::SBATCH, theirs), expected, "{theirs}");
    }
}

#[test]
fn flags_of_gflow_are_ours() {
    for (theirs, ours) in [
        (
            "-g 2 -p 20 -n x -P lab",
            "--gpus=2 --priority=10 --lenient --name=x --project=lab --lenient",
        ),
        ("--gres 1 --nice 10", "--gpus=1 --priority=0 --lenient"),
        ("-t 10 -m 512", "--time=600s --mem=512M"),
        ("--time-limit 1:30:00 --max-mem 2G", "--time=5400s --mem=2048M"),
        ("-t 10:30", "--time=630s"),
        ("-d @~1", "--after=@~1"),
        ("--depends-on-any 1,2", "--after-one=1,2"),
        ("--begin now+2h --max-retries 3", "--begin=now+2h --retry=3 --retry-on=fail"),
        ("--begin now+60", "--begin=now+60m"),
        ("-J x --param lr=0.1,0.2", "--name=x --param=lr=0.1,0.2"),
        ("--param lr=0:1:0.5 --param n=1:3", "--param=lr=0,0.5,1 --param=n=1,2,3"),
        ("-d 1 --no-auto-cancel", "--after=1 --on-unmet=keep"),
        ("-c torch -g 1", "--conda=torch --gpus=1"),
        ("--shared --gpu-memory 20G", "--shared --gpu-memory=20480M"),
        ("--depends-on-all 1,2,@", "--after=1,2,@"),
    ] {
        let expected: Vec<&str> = ours.split(' ').collect();
        assert_eq!(words(&gflow::flags::GBATCH, theirs), expected, "{theirs}");
    }
}

#[test]
fn ours_go_before_gflows_and_those_before_slurms() {
    let all = of("#SBATCH -G 1 -t 10 -J slurm\n# GFLOW --gpus 2 --time 20\n# GPOOL --gpus 3");
    assert_eq!(all.own.request.0.gpus.as_deref(), Some("3"));
    assert_eq!(all.foreign.request.0.gpus.as_deref(), Some("2"));
    assert_eq!(all.foreign.request.0.time, Some("1200s".into()));
    assert_eq!(all.foreign.request.0.name.as_deref(), Some("slurm"));
    assert_eq!(all.foreign.request.0.compat, ["gflow", "slurm"]);
    assert!(of("# GPOOL --gpus 1").foreign.request.0.compat.is_empty());
}

#[test]
fn a_flag_of_the_command_line_replaces_the_directive() {
    let lines = "#SBATCH --export=NONE,A=1 -d afterok:1 --requeue -J script";
    let words = ["--export=ALL,B=2", "--no-requeue", "-d", "afterok:2"];
    let Ok(ParseOutcome::Args(said)) = slurm::flags::SBATCH.read(&words.map(str::to_owned)) else {
        panic!("{words:?}")
    };
    let job = from_directives(&script(lines), &said.flags).expect("valid").foreign;
    assert!(!job.clean_env && job.env.is_empty() && job.after.is_empty(), "{job:?}");
    assert_eq!(job.request.0.requeue, None);
    assert_eq!(job.request.0.name.as_deref(), Some("script"));
}

#[test]
fn ignored_contradictory_and_late_flags_are_reported_once() {
    let told = of("#SBATCH -p gpu -q high -p other\n\
                   #SBATCH --gres=gpu:1,license:2 --mail-type=END\n\
                   #SBATCH -t 5 -G 2\n#SBATCH -t 10\n# SBATCH -t 99\necho\n\
                   #SBATCH -t 1\n#SBATCH -c 1")
    .translation;
    assert_eq!(told.ignored, ["a.sh: #SBATCH: --qos, --gres=license:2"]);
    assert_eq!(told.contradictions.len(), 3, "{:?}", told.contradictions);
    assert!(told.contradictions[1].starts_with("a.sh:5: --time 5 and --time 10"));
    assert_eq!(
        told.misplaced,
        [
            "a.sh:8 (and 1 more): #SBATCH after the first command is ignored",
            "a.sh:6: SBATCH is only read as #SBATCH in the first column, as in Slurm"
        ]
    );
    let text = told.refuse_unclear().expect_err("unclear").text(false);
    assert!(text.contains("--partition") && text.contains("a.sh:8"), "{text}");
    assert_eq!(of("#SBATCH -t 5").translation.refuse_unclear(), Ok(()));
}

#[test]
fn equal_parts_of_a_heterogeneous_job_are_tasks_of_a_gang() {
    let lines = "#SBATCH -J a --ntasks-per-node=1 -G 2 --mem=1G\n#SBATCH hetjob\n\
                 #SBATCH -J b --ntasks-per-node=1 -G 2 --mem=1G";
    let job = of(lines).foreign.request.0;
    assert_eq!((job.tasks, job.launcher), (Some("2".into()), Some(2)));
    assert_eq!(job.gpus.as_deref(), Some("2"));
    assert_eq!(job.mem, Some("1024M".into()));
    assert_eq!(
        of("#SBATCH -N 2\n#SBATCH hetjob\n#SBATCH -N 2").foreign.request.0.nodes,
        Some("4".into())
    );
    refused("#SBATCH hetjob\n#SBATCH -G 1", &["differ in --gpus", "one job for each part"]);
}

#[test]
fn what_can_not_be_is_refused_with_its_line() {
    refused("#SBATCH --gpu-s 2", &["there is no flag --gpu-s"]);
    refused("#SBATCH --nodes=2-4", &["a range of nodes", "--nodes 2"]);
    refused("#SBATCH -N 2 -G 3", &["distributed evenly", "--gpus-per-node"]);
    refused("#SBATCH -N 2 -n 5 --ntasks-per-node=2", &["--ntasks", "--ntasks 4"]);
    refused("#SBATCH -n x", &["--ntasks"]);
    refused("#SBATCH -t tomorrow", &["--time", "1:30:00"]);
    refused("#SBATCH --mem=4X", &["--mem=16G"]);
    refused("#SBATCH --gres=shard:1", &["--gpus 0.5"]);
    refused("#SBATCH --gres=h100:2", &["\"h100\" is no generic resource", "--gres=gpu:h100:2"]);
    refused("#SBATCH --gres=gpu::2", &["--gres=gpu:a100:2"]);
    refused("#SBATCH --gres=gpus:2", &["--gres=gpu:2"]);
    refused("#SBATCH --gres=1g.10gb:1", &["--gres=gpu:1g.10gb:1"]);
    refused("#SBATCH --gpus=gpu:2", &["--gpus=2"]);
    refused("#SBATCH --tres-per-task=gres/license:1", &["neither cpu nor gres/gpu"]);
    refused("#SBATCH -d after:7+x", &["number of minutes"]);
    refused("#SBATCH -d afterok:7+5", &["only after takes"]);
    refused("#SBATCH --export=A=\\'x", &["quote"]);
    refused("#SBATCH --open-mode=both", &["append nor truncate"]);
    refused("#SBATCH --gres=gpu:a100:1,gpu:v100:1", &["twice"]);
    refused("#SBATCH -d afterok:1?afterok:2,afterok:3", &["both"]);
    refused("#SBATCH -d after:1?afterok:2", &["list of alternatives"]);
    refused("#SBATCH -d afterok", &["has no job"]);
    refused("#SBATCH --uid=3", &["sudo -u USER"]);
    refused("#SBATCH --mem-per-gpu=3G", &["requests no GPU"]);
    refused("#SBATCH train.py", &["unexpected argument"]);
    refused("#SBATCH -J 'x", &["quotation"]);
    refused("#SBATCH -G 99999999999999999999", &["--gpus"]);
    refused("#SBATCH --mem=99999999999999999T", &["--mem"]);
    refused("#SBATCH -t 99999999999999999999-0", &["--time"]);
    refused("# GFLOW --priority 256", &["0 to 255"]);
    refused("# GFLOW --time -5", &["--time"]);
    refused("# GFLOW --memory 12Q", &["--memory=20G"]);
    refused("# GFLOW --nosuch", &["there is no flag --nosuch"]);
}
