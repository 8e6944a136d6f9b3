//! Steps on several hosts, and MPI programs in them: MPICH by `srun`, Open MPI by `mpirun`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Cluster, Gate, Hosts, Machine, skip, until_so};

/// Prints the rank, the size, the node, and the sum of all ranks.
const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && rank == 1 && argv[1][0] == 'a') MPI_Abort(MPI_COMM_WORLD, 7);
    if (argc > 1 && rank == 1) _exit(0);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    const char *node = getenv("SLURMD_NODENAME");
    if (!node) node = getenv("GPOOL_NODE");
    printf("%d of %d on %s: %d\n", rank, size, node, sum);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
"#;

/// Compiles the program; `None` without that MPI.
fn compiled(cluster: &Cluster, compiler: &str) -> Option<PathBuf> {
    let (source, program) = (cluster.work().join("hello.c"), cluster.work().join("hello"));
    std::fs::write(&source, HELLO).unwrap();
    let mut command = Command::new(compiler);
    let made = command.arg("-o").arg(&program).arg(&source).status();
    if !made.is_ok_and(|status| status.success()) {
        skip(&format!("there is no {compiler}"));
        return None;
    }
    Some(program)
}

/// The folder with the commands of Slurm.
fn shims(cluster: &Cluster) -> PathBuf {
    let bin = cluster.path("bin");
    cluster.gpool(["install-shims", "--slurm", bin.to_str().unwrap()]).ok();
    bin
}

/// Runs a line on the first node of a job of two nodes; returns its sorted output and its exit
/// code.
fn run(cluster: &Cluster, bin: &Path, flags: &[&str], line: &str) -> (Vec<String>, Option<i32>) {
    let line = format!("export PATH={}:$PATH; {line}", bin.display());
    let fixed = ["--nodes", "2", "--gpus", "1", "--launcher", "4"];
    let id = cluster.sh(&[&fixed, flags].concat(), &line);
    let ended = cluster.until_ended(&id);
    let text = cluster.gpool(["logs", &id, "--rank", "0"]).out;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (lines, ended.run.exit_code)
}

/// A server on one host, and a node on another one.
fn two_hosts(hosts: &Hosts) -> Cluster {
    let listen = ["--devices", "sim:1xA100-80G", "--listen", "0.0.0.0:7443"];
    let mut cluster = Cluster::unstarted(&listen);
    cluster.within = hosts.on("s");
    let file = cluster.path("gpool.toml");
    let names = format!("tls_names = [\"{0}\"]\naddress = \"{0}\"\n", hosts.address("s"));
    std::fs::write(&file, names).unwrap();
    cluster.variables = vec![("GPOOL_CONFIG".to_owned(), file.display().to_string())];
    cluster.up();
    cluster
}

fn machine<'c>(cluster: &'c Cluster, hosts: &Hosts) -> Machine<'c> {
    let mut machine = Machine::new(cluster, "lab2", "sim:1xA100-80G").on(hosts.on("a"));
    machine.join("lab2");
    machine
}

#[test]
fn steps_on_another_host_have_output_input_signals_and_exit_codes() {
    let Some(hosts) = Hosts::new(&["s", "a"]) else { return };
    let mut cluster = two_hosts(&hosts);
    let other_host = machine(&cluster, &hosts);
    let bin = shims(&cluster);
    let (lines, code) = run(
        &cluster,
        &bin,
        &[],
        "srun sh -c 'echo $SLURM_PROCID on $SLURMD_NODENAME in $GPOOL_NODE; echo e >&2; \
         exit $((SLURM_PROCID * 2))' 2>errors; echo code $?; grep -c '^e$' errors",
    );
    let on = |rank: u32, node| format!("{rank} on {node} in {node}");
    let [first, other] =
        if lines[0].contains("lab1") { ["lab1", "lab2"] } else { ["lab2", "lab1"] };
    let expected =
        [on(0, first), on(1, first), on(2, other), on(3, other), "4".into(), "code 6".into()];
    assert_eq!((&lines[..], code), (&expected[..], Some(0)));
    // A megabyte through the standard input of one process and back.
    let (lines, _) = run(
        &cluster,
        &bin,
        &[],
        "head -c 1000000 /dev/zero | tr '\\0' x | srun -n1 -r1 sh -c 'echo $GPOOL_NODE; cat' | wc -c",
    );
    assert_eq!(lines, ["1000005"]);
    // Nothing reads the output any more, so its process ends.
    let (lines, _) = run(&cluster, &bin, &[], "srun -n1 -r1 yes | head -n 1");
    assert!(lines.contains(&"y".to_owned()), "{lines:?}");
    // The step outlives its server, and a signal reaches its processes.
    let gate = Gate::new(&cluster, "gate");
    let begun = cluster.path("begun");
    let program = format!(
        "trap 'echo caught on $GPOOL_NODE; exit 3' USR1; touch {begun}-$SLURM_PROCID; {}; \
         touch {begun}-again-$SLURM_PROCID; while :; do sleep 0.1; done",
        gate.line(),
        begun = begun.display(),
    );
    let script = cluster.work().join("program");
    std::fs::write(&script, program).unwrap();
    let line =
        format!("export PATH={}:$PATH; exec srun -n2 -N2 sh {}", bin.display(), script.display());
    let id = cluster.sh(&["--nodes", "2", "--gpus", "1", "--launcher", "2"], &line);
    let both = |cluster: &Cluster, name: &str| {
        let exists = |rank: &u32| cluster.path(&format!("{name}-{rank}")).exists();
        until_so("both are there", || [0, 1].iter().all(exists));
    };
    both(&cluster, "begun");
    drop(other_host);
    cluster.kill();
    gate.open();
    gate.open();
    both(&cluster, "begun-again");
    cluster.up();
    let mut other_host = Machine::new(&cluster, "lab2", "sim:1xA100-80G").on(hosts.on("a"));
    other_host.start(&[]);
    other_host.until_connected("lab2");
    cluster.gpool(["signal", "USR1", &id]).ok();
    let ended = cluster.until_ended(&id);
    let output = cluster.gpool(["logs", &id, "--rank", "0"]).out;
    assert!(output.contains("caught on lab1") && output.contains("caught on lab2"), "{output}");
    assert_eq!(ended.run.exit_code, Some(3), "{output}");
}

#[test]
fn a_program_of_mpich_finds_its_processes_by_srun() {
    let cluster = Cluster::new("2x(sim:2xA100-80G)");
    let Some(program) = compiled(&cluster, "mpicc.mpich") else { return };
    let bin = shims(&cluster);
    let line = format!("srun {}", program.display());
    // MPICH 4.0 rarely hangs in its own MPI_Finalize on a busy machine, with the output written.
    let patient =
        format!("for try in 1 2 3; do timeout 30 {line} > out 2>&1 && break; done; cat out");
    let (lines, code) = run(&cluster, &bin, &[], &patient);
    let on = |rank: u32, node| format!("{rank} of 4 on lab1-{node}: 6");
    assert_eq!((&lines[..], code), (&[on(0, 1), on(1, 1), on(2, 2), on(3, 2)][..], Some(0)));
    let (lines, code) = run(&cluster, &bin, &[], &format!("{line} abort; echo code $?"));
    assert!(lines.iter().any(|line| line.contains("task 1 aborted the program")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("code ") && line != "code 0"), "{lines:?}");
    assert_eq!(code, Some(0));
    // A process that ends without MPI_Finalize ends the others, which would wait for it.
    let (lines, _) = run(&cluster, &bin, &[], &format!("{line} leave; echo code $?"));
    let left = "task 1 ended within an MPI program";
    assert!(lines.iter().any(|line| line.contains(left)), "{lines:?}");
}

#[test]
fn a_program_of_open_mpi_starts_on_the_nodes_of_its_job() {
    let cluster = Cluster::new("2x(sim:2xA100-80G)");
    let Some(program) = compiled(&cluster, "mpicc.openmpi") else { return };
    let bin = shims(&cluster);
    // Both nodes are one machine, and their daemons need different folders there.
    let agent = "node=$1; shift; mkdir -p $PWD/tmp-$node\n\
                 exec $AGENT $node TMPDIR=$PWD/tmp-$node \"$@\"\n";
    std::fs::write(cluster.work().join("agent"), agent).unwrap();
    let line = format!(
        "export AGENT=\"$OMPI_MCA_plm_rsh_agent\" OMPI_MCA_plm_rsh_agent='sh agent'; \
         export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; cat $GPOOL_HOSTFILE; \
         mpirun.openmpi --hostfile $GPOOL_HOSTFILE --mca btl self,tcp --mca btl_tcp_if_include lo \
         --mca oob_tcp_if_include lo -x GPOOL_NODE {}",
        program.display()
    );
    let (lines, code) = run(&cluster, &bin, &[], &line);
    let ranks: Vec<&str> = lines.iter().filter_map(|line| line.split(" of 4 ").next()).collect();
    assert_eq!(code, Some(0), "{lines:?}");
    assert_eq!(ranks[..4], ["0", "1", "2", "3"], "{lines:?}");
    assert!(lines.contains(&"lab1-1 slots=2".to_owned()), "{lines:?}");
    let outside = cluster.gpool(["rsh", "lab1-1", "true"]);
    outside.refused(2, &["only in a job"]);
}
