//! Slurm's commands that show and change jobs and nodes.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Cluster, Running, until_so};
use crate::shims::{installed, shell, shim};

#[test]
fn elements_of_arrays_are_rows_with_plain_numbers() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let script = "#!/bin/bash\n#SBATCH -G 1 -o %a.out\necho $SLURM_JOB_ID; exec sleep 1000\n";
    std::fs::write(cluster.work().join("a.sh"), script).unwrap();
    shim(&cluster, &bin, "sbatch -a 1-5 a.sh").ok();
    for id in ["1.1", "1.2"] {
        cluster.until_is(id, "running");
    }
    let rows = |line: &str| shim(&cluster, &bin, line).ok();
    assert_eq!(rows("squeue -h -o %i:%t"), "1_[3-5]:PD\n1_1:R\n1_2:R\n");
    assert_eq!(rows("squeue -h -r -o %i"), "1_1\n1_2\n1_3\n1_4\n1_5\n");
    shim(&cluster, &bin, "scontrol hold 1_5").ok();
    assert_eq!(rows("squeue -h -t PD -o %i:%r"), "1_[3-4]:Resources\n1_[5]:JobHeldUser\n");
    // All commands accept the ID that a script finds in SLURM_JOB_ID.
    let out = cluster.work().join("1.out");
    until_so("it has written its ID", || std::fs::read(&out).is_ok_and(|out| !out.is_empty()));
    assert_eq!(std::fs::read_to_string(out).unwrap(), "1073742849\n");
    assert_eq!(rows("squeue -h -j 1073742849 -o %i:%K"), "1_1:1\n");
    let shown = rows("scontrol show job 1073742849");
    let first = "JobId=1073742849 ArrayJobId=1 ArrayTaskId=1 JobName=a.sh\n";
    assert!(shown.starts_with(first), "{shown}");
    assert!(shown.contains(&format!("StdOut={}/1.out\n", cluster.work().display())), "{shown}");
    shim(&cluster, &bin, "scancel 1073742850").ok();
    assert_eq!(cluster.until_ended("1.2").state.as_str(), "cancelled");
    cluster.until_is("1.3", "running");
    assert_eq!(
        rows("sacct -X -n -P -o JobID,JobIDRaw,State -j 1"),
        "1_[4]|1|PENDING\n1_[5]|1|PENDING\n1_1|1073742849|RUNNING\n\
         1_2|1073742850|CANCELLED\n1_3|1073742851|RUNNING\n"
    );
    assert_eq!(rows("squeue -h -j 1_4 -o %i:%T"), "1_4:PENDING\n");
    assert!(cluster.gpool(["show", "1073742851"]).ok().starts_with("job 1.3 "));
    // Of a partly running array, only the pending elements.
    shim(&cluster, &bin, "scancel -t PENDING 1").ok();
    assert_eq!(cluster.until_ended("1.5").state.as_str(), "cancelled");
    assert_eq!(rows("squeue -h -o %i:%t"), "1_1:R\n1_3:R\n");
}

#[test]
fn squeue_can_repeat_its_output() {
    let cluster = Cluster::new("none");
    let bin = installed(&cluster);
    cluster.submit(["--hold", "-J", "held", "--", "true"]);
    let mut command = Command::new(bin.join("squeue"));
    let of = cluster.command();
    command.env_clear().envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.args(["-h", "-i", "1", "-o", "%j"]);
    let running = Running::start(&mut command, None);
    until_so("it has looked twice", || running.said().matches("held").count() > 1);
    running.signal(Signal::INT);
    running.end();
}

#[test]
fn jobs_change_by_scontrol() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    cluster.submit(["-g", "2", "-t", "10m", "-c", "1", "-J", "first", "--", "sleep", "1000"]);
    cluster.until_is("1", "running");
    cluster.submit(["-g", "h100:1", "-m", "1G", "-J", "second", "--", "true"]);
    let shown = run("scontrol -dd show job 1");
    for expected in [
        "JobId=1 JobName=first",
        "JobState=RUNNING Reason=None Dependency=(null)",
        "TimeLimit=00:10:00",
        "NumNodes=1 NumCPUs=1 NumTasks=1",
        "AllocTRES=cpu=1,node=1,billing=1,gres/gpu=2",
        "JOB_GRES=gpu:h100_80g:2\n",
        "     Nodes=lab1 CPU_IDs=0 Mem=0 GRES=gpu:h100_80g:2(IDX:0-1)\n",
        "TresPerNode=gres/gpu:2\n",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    let tres = "cpu=1,mem=1G,node=1,billing=1,gres/gpu=1,gres/gpu:h100=1";
    assert_eq!(run("sacct -a -j 2 -n -P -o ReqTRES,AllocTRES"), format!("{tres}|\n"));
    run("scontrol hold 2");
    let words = "scontrol update JobId=2 TimeLimit=2:00:00 Nice=50 JobName=other Gres=gpu:2 \
                 Dependency=afterany:1 MinMemoryNode=512";
    run(words);
    let job = cluster.job("2");
    assert_eq!(
        (&*job.name, job.request.gpus_text(), job.request.priority_number()),
        ("other", "2", -50)
    );
    assert_eq!(
        (job.request.time_seconds(), job.request.mem_bytes()),
        (Some(7200.0), Some(512 << 20))
    );
    assert_eq!((&job.request.after[..], job.state.as_str()), (&["end:1".to_owned()][..], "held"));
    run("scontrol update jobid=1 TimeLimit=+5");
    assert_eq!(cluster.job("1").request.time_seconds(), Some(900.0));
    run("scontrol requeuehold 1");
    cluster.until_is("1", "held");
    run("scontrol release 1");
    cluster.until_is("1", "running");
    assert!(run("scontrol -o show job=1").contains("Restarts=1 "));
    run("scontrol suspend 1");
    cluster.until_is("1", "paused");
    run("scontrol resume 1");
    cluster.until_is("1", "running");
    shim(&cluster, &bin, "scontrol show job 99").refused(6, &["there is no job 99"]);
}

#[test]
fn pools_are_partitions_and_nodes_are_shown_and_drained() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    cluster.gpool(["pool", "move", "lab1", "batch"]).ok();
    cluster.submit(["-g", "1", "--", "sleep", "1000"]);
    cluster.until_is("1", "running");
    cluster.submit(["-g", "2", "--pool", "batch", "--", "true"]);
    assert_eq!(run("squeue -h -p batch -o %i:%P"), "1:batch\n2:batch\n");
    assert_eq!(run("squeue -h -p default"), "");
    let partition = run("scontrol show partition batch");
    assert!(partition.starts_with("PartitionName=batch\n"), "{partition}");
    assert!(partition.contains("   Nodes=lab1\n"), "{partition}");
    let names = "NodeList:8,Partition:8,StateLong:8,Gres:20,GresUsed:.22";
    assert_eq!(
        run(&format!("sinfo -h -O {names}")),
        "lab1    batch   mixed   gpu:h100_80g:2       gpu:h100_80g:1(IDX:0)\n"
    );
    run("scontrol update NodeName=lab1 State=DRAIN Reason=disk");
    assert_eq!(run("sinfo -h -o %t:%E"), "drng:disk\n");
    let node = run("scontrol show node lab1");
    for expected in ["NodeName=lab1 ", "State=MIXED+DRAIN ", "Reason=disk [", "GresUsed=gpu:"] {
        assert!(node.contains(expected), "{expected} in {node}");
    }
    run("scontrol update NodeName=lab1 State=RESUME");
    assert_eq!(run("sinfo -h -o %t"), "mix\n");
    assert_eq!(run("scontrol show hostnames lab[1-2],x"), "lab1\nlab2\nx\n");
    shim(&cluster, &bin, "scontrol show node nosuch").refused(2, &["nosuch", "lab1"]);
}

#[test]
fn accounting_commands_report_gpu_time_shares_and_priorities() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    cluster.gpool(["project", "create", "nlp", "--gpus", "4", "--weight", "3"]).ok();
    let flags = ["--project", "nlp", "--gpus", "4", "-t", "1h"];
    let first = cluster.sh(&flags, "sleep 1000");
    cluster.until_is(&first, "running");
    let second = cluster.sh(&["--gpus", "2", "--priority=-3"], "true");
    let third = cluster.sh(&["--gpus", "1"], "true");
    for id in [&second, &third] {
        cluster.until_is(id, "pending");
    }
    let me = cluster.job(&first).user;

    assert_eq!(
        run("sprio").lines().next(),
        Some("          JOBID PARTITION   PRIORITY        AGE  FAIRSHARE    JOBSIZE")
    );
    let keys = run("sprio -h -o %i|%r|%u|%Y|%N|%J|%Q -S -J");
    let line = |id: &str, rest: &str| format!("{id}|default|{me}|{rest}|N/A\n");
    let of = [line(&second, "-3|3|0.5000000"), line(&third, "0|0|0.2500000")];
    assert_eq!(keys, of.concat());
    assert_eq!(run(&format!("sprio -h -o %i -j {third}")), format!("{third}\n"));
    assert_eq!(run("sprio -h -w -o %i:%A:%S"), "Weights:1:\n");
    let long = run("sprio -l");
    assert!(long.lines().next().unwrap().ends_with("NICE TRES"), "{long}");

    let minutes = "sreport cluster AccountUtil start=now-1hours end=now -nP -t seconds";
    until_so("a minute is recorded", || run(minutes).contains("|nlp|"));
    let lines = run(minutes);
    let of = |line: &str| line.split('|').map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = lines.lines().map(of).collect();
    let names: Vec<(&str, &str)> = lines.iter().map(|it| (&*it[1], &*it[2])).collect();
    assert_eq!(names, [("root", ""), ("nlp", ""), ("nlp", &*me)]);
    assert!(lines.iter().all(|it| it[0] == "gpool" && it[4] == "gres/gpu"), "{lines:?}");
    assert!(lines[2][5].parse::<u64>().unwrap() > 0, "{lines:?}");
    let top = run("sreport user top start=today end=now -P -T gres/gpu,cpu format=login,used%30");
    assert!(top.contains("\nTop 10 Users ") && top.contains("\nUsage reported in TRES Minutes\n"));
    assert!(top.contains(&format!("\nLogin|Used\n{me}|")), "{top}");
    let cluster_line = run("sreport cluster util start=now-1hours end=now -nP -t percent");
    let cells = of(cluster_line.trim_end());
    assert_eq!((&*cells[0], &*cells[7]), ("gpool", "100.00%"), "{cluster_line}");
    let empty = run("sreport cluster UserUtil start=now-1hours end=now -n users=nobody");
    assert_eq!(empty, "");

    let shares = run("sshare -a -P -o account,user,rawshares,normshares,rawusage,fairshare");
    let lines: Vec<Vec<String>> = shares.lines().map(of).collect();
    let head = ["Account", "User", "RawShares", "NormShares", "RawUsage", "FairShare"];
    assert_eq!(lines[0], head);
    let nlp = lines.iter().find(|it| it[0] == " nlp").expect("it is there");
    assert_eq!((&*nlp[2], &*nlp[3]), ("3", "0.750000"), "{shares}");
    assert!(nlp[5].parse::<f64>().unwrap() >= 0.75, "{shares}");
    let own = lines.iter().find(|it| it[0] == "  nlp").expect("a line of the user");
    assert_eq!((&own[1], &own[4]), (&me, &nlp[4]), "{shares}");
    let other = run("sshare -n -u nobody -A nlp");
    assert_eq!(other.lines().count(), 1, "{other}");
}

/// A job with a script on two nodes, which runs until it is cancelled.
fn on_two_nodes(cluster: &Cluster, bin: &std::path::Path) -> String {
    let script = "#!/bin/bash\n#SBATCH -J wide\nexec sleep 1000\n";
    std::fs::write(cluster.work().join("a.sh"), script).unwrap();
    let line = "sbatch --parsable -N2 --ntasks-per-node=2 -c 1 --gres=gpu:h100:2 a.sh x --export=A";
    let id = shim(cluster, bin, line).ok().trim().to_owned();
    cluster.until_is(&id, "running");
    id
}

#[test]
fn jobs_on_several_nodes_are_shown_in_total() {
    let cluster = Cluster::new("3x(sim:4xH100-80G)");
    let bin = installed(&cluster);
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    let id = on_two_nodes(&cluster, &bin);
    assert_eq!(run(&format!("squeue -h -j {id} -o %C,%D,%N,%B,%b,%T")), {
        let nodes = run(&format!("squeue -h -j {id} -O nodelist:")).trim().to_owned();
        assert!(nodes.ends_with("[1-2]"), "{nodes}");
        let first = nodes.replace("[1-2]", "1");
        format!("4,2,{nodes},{first},gres/gpu:h100_80g:2,RUNNING\n")
    });
    let shown = run(&format!("scontrol show jobid -dd {id}"));
    for expected in [
        "NumNodes=2 NumCPUs=4 NumTasks=4 CPUs/Task=1 ",
        "AllocTRES=cpu=4,node=2,billing=4,gres/gpu=4,gres/gpu:h100_80g=4",
        "JOB_GRES=gpu:h100_80g:4",
        "CPU_IDs=0-1 Mem=0 GRES=gpu:h100_80g:2(IDX:0-1)",
        "a.sh x --export=A\n",
        "UserId=",
    ] {
        assert!(shown.contains(expected), "{expected} in {shown}");
    }
    assert_eq!(shown.matches(" GRES=").count(), 1, "alike nodes share a line: {shown}");
    assert!(run(&format!("seff {id}")).contains("Nodes: 2\nCores per node: 2\n"));
    let line = format!("sacct -j {id} -n -P -o JobID,JobName,NCPUS,NNodes,NTasks,AllocTRES");
    assert_eq!(
        run(&line),
        format!(
            "{id}|wide|4|2||cpu=4,node=2,billing=4,gres/gpu=4,gres/gpu:h100_80g=4\n\
             {id}.batch|batch|2|1|1|cpu=2,node=1,gres/gpu=2,gres/gpu:h100_80g=2\n"
        )
    );
    assert_eq!(run(&format!("squeue -h -s -o %i,%j -j {id}")), format!("{id}.batch,batch\n"));
    assert!(run("scontrol show step").starts_with(&format!("StepId={id}.batch UserId=")));
    assert_eq!(run(&format!("scontrol write batch_script {id} -")).lines().count(), 3);
    assert_eq!(run("sinfo -h -o %D,%A"), "3,2/1\n");
}

#[test]
fn an_unknown_field_ends_no_query_and_every_other_is_shown() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    cluster.submit(["-g", "1", "-J", "one", "--", "sleep", "1000"]);
    cluster.until_is("1", "running");
    let ran = shim(&cluster, &bin, "squeue -h -o %i|%s|%v");
    assert_eq!((ran.code, &*ran.out), (0, "1|%s|(null)\n"), "{ran:?}");
    assert!(ran.err.contains("Invalid job format specification: s"), "{ran:?}");
    let ran = shim(&cluster, &bin, "squeue -h -O JobID:|,shoes,Name:###,MCSLabel:.10");
    assert_eq!((ran.code, &*ran.out), (0, "1|one###    (null)\n"), "{ran:?}");
    let ran = shim(&cluster, &bin, "sinfo -h -o %R|%q|%p|%O|%G");
    assert_eq!((ran.code, &*ran.out), (0, "default|%q|1|N/A|gpu:h100_80g:2\n"), "{ran:?}");
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    let all = run("sacct -j 1 -X -P -o all");
    assert_eq!(all.lines().next().unwrap().split('|').count(), 125, "{all}");
    assert_eq!(run("sacct -j 1 -X -n -P -o AdminComment,End,WCKeyID"), "|Unknown|0\n");
    assert!(run("squeue --helpFormat").contains("tres-alloc"));
    assert!(run("sinfo --helpformat").contains("%z"));
    assert!(run("squeue -o %all").contains("|MIN_CPUS|"));
}

#[test]
fn queries_have_the_json_of_slurm() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    cluster.submit(["-g", "2", "-c", "2", "-t", "10m", "-J", "one", "--", "sleep", "1000"]);
    cluster.until_is("1", "running");
    let json = |line: &str| shim(&cluster, &bin, line).json();
    let all = json("squeue --json");
    let job = &all["jobs"][0];
    assert_eq!((&job["job_id"], &job["name"]), (&1.into(), &"one".into()), "{job}");
    assert_eq!(job["job_state"], serde_json::json!(["RUNNING"]));
    let minutes = serde_json::json!({ "set": true, "infinite": false, "number": 10 });
    assert_eq!(job["time_limit"], minutes);
    assert_eq!(job["job_resources"]["nodes"]["allocation"][0]["cpus"]["count"], 2);
    assert_eq!(all["meta"]["plugin"]["data_parser"], "data_parser/v0.0.41");
    assert_eq!(
        (&all["errors"], &all["warnings"]),
        (&serde_json::json!([]), &serde_json::json!([]))
    );
    let all = json("sacct --json -S1970-01-01-00:00:01");
    let job = &all["jobs"][0];
    let state = serde_json::json!({ "current": ["RUNNING"], "reason": "None" });
    assert_eq!((&job["state"], &job["steps"][0]["step"]["id"]), (&state, &"1.batch".into()));
    let gpus = serde_json::json!({ "type": "gres", "name": "gpu", "id": 1001, "count": 2 });
    assert!(job["tres"]["allocated"].as_array().unwrap().contains(&gpus), "{job}");
    // The form before states were lists.
    let by_variable = "/usr/bin/env GPOOL_DATA_PARSER=v0.0.39 sacct --json -j 1";
    for line in ["sacct --json=v0.0.39 -j 1", by_variable] {
        assert_eq!(json(line)["jobs"][0]["state"]["current"], "RUNNING");
    }
    assert_eq!(json("sinfo --json")["sinfo"][0]["node"]["state"][0], "ALLOCATED");
    assert_eq!(json("scontrol show node --json")["nodes"][0]["gres"], "gpu:h100_80g:2");
    assert_eq!(json("scontrol show job 1 --json")["jobs"][0]["job_id"], 1);
    assert_eq!(json("scontrol show partition --json")["partitions"][0]["name"], "default");
}

#[test]
fn accounts_and_usage_of_running_jobs_are_shown() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    cluster.gpool(["project", "create", "vision", "--limit", "2"]).ok();
    cluster.submit(["-g", "1", "--", "sleep", "1000"]);
    cluster.until_is("1", "running");
    let user = cluster.job("1").user;
    let accounts = run(&format!("sacctmgr -n -s list user {user} format=account%20"));
    let accounts: Vec<&str> = accounts.lines().map(str::trim).collect();
    assert_eq!(accounts, ["default", "vision"]);
    let rows = run("sacctmgr -n -P show assoc account=vision format=account,user,grptres");
    assert_eq!(rows, format!("vision||gres/gpu=2\nvision|{user}|\n"));
    assert_eq!(run("sacctmgr -n -P list qos format=name,priority"), "normal|0\n");
    assert_eq!(run("sacctmgr -n -P list cluster format=cluster"), "gpool\n");
    assert_eq!(run("sstat -n -P -j 1 -o JobID,NTasks"), "1.batch|1\n");
    let none = shim(&cluster, &bin, "sstat -n -j 1.batch,1 -o shoes");
    assert_ne!(none.code, 0);
}

#[test]
fn scontrol_answers_as_health_checks_expect() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let run = |line: &str| shim(&cluster, &bin, line).ok();
    assert!(run("scontrol ping").ends_with(" is UP\n"));
    assert!(run("scontrol version").starts_with("slurm 24."));
    assert!(run("sinfo -V").starts_with("slurm 24."));
    assert!(run("scontrol show config").contains("\nMinJobAge               = 300 sec\n"));
    assert_eq!(run("scontrol show reservation"), "No reservations in the system\n");
    assert_eq!(run("scontrol show licenses"), "No licenses configured in Slurm.\n");
    assert_eq!(run("scontrol show topology"), "");
    assert_eq!(run("scontrol completing"), "");
    assert_eq!(run("scontrol show hostlist lab-1,lab-2"), "lab-[1-2]\n");
    assert_eq!(run("scontrol show hostlistsorted lab-2,lab-1,lab-10"), "lab-[1-2,10]\n");
    assert!(run("scontrol listpids").starts_with("PID "));
    cluster.submit(["--", "sleep", "1000"]);
    assert_eq!(run("scontrol wait_job 1"), "scontrol: Nodes are ready for job 1\n");
    cluster.submit(["-g", "2", "--hold", "-J", "a", "--", "true"]);
    cluster.submit(["-g", "2", "--hold", "-J", "b", "--", "true"]);
    run("scontrol top 3");
    assert!(
        cluster.job("3").request.priority_number() > cluster.job("2").request.priority_number()
    );
    run("scontrol update NodeName=lab1 State=DRAIN Reason=disk");
    assert!(run("sinfo -h -R").starts_with("disk "));
}

#[test]
fn scancel_of_an_ended_job_succeeds() {
    let cluster = Cluster::new("none");
    let bin = installed(&cluster);
    let id = cluster.submit(["--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    let ran = shim(&cluster, &bin, &format!("scancel -v {id}"));
    assert!(ran.code == 0 && ran.err.contains("scancel: Terminating job 1\n"), "{ran:?}");
    cluster.until_ended(&id);
    let ran = shim(&cluster, &bin, &format!("scancel {id}"));
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", ""));
    shim(&cluster, &bin, &format!("scancel -s USR1 {id}")).refused(7, &[]);
}

/// Writes a script, submits it, and returns the ID of its job.
fn sbatch(cluster: &Cluster, bin: &Path, flags: &str, lines: &str) -> String {
    std::fs::write(cluster.work().join("b.sh"), format!("#!/bin/bash\n{lines}\n")).unwrap();
    shim(cluster, bin, &format!("sbatch --parsable {flags} b.sh")).ok().trim().to_owned()
}

fn read(cluster: &Cluster, path: &str) -> String {
    std::fs::read_to_string(cluster.work().join(path)).unwrap()
}

#[test]
fn a_job_waits_for_the_output_folder_that_its_client_makes() {
    let cluster = Cluster::new("none");
    let bin = installed(&cluster);
    let id = sbatch(&cluster, &bin, "-o runs/%j/out", "echo hi");
    cluster.until_is(&id, "starting");
    std::fs::create_dir_all(cluster.work().join(format!("runs/{id}"))).unwrap();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(read(&cluster, &format!("runs/{id}/out")), "hi\n");
    // A folder that stays missing is made by the job.
    let id = sbatch(&cluster, &bin, "-o made/%A/out", "echo made");
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(read(&cluster, &format!("made/{id}/out")), "made\n");
    let id = sbatch(&cluster, &bin, "-o none/%j", "true");
    assert_eq!(cluster.until_ended(&id).state.as_str(), "failed", "only a folder with the ID");
}

#[test]
fn files_are_named_and_opened_as_slurm_does() {
    let cluster = Cluster::new("none");
    let bin = installed(&cluster);
    let id = sbatch(&cluster, &bin, "-a 7 -o z_%4a_%06A.out", "echo $SLURM_JOB_ID");
    cluster.until_ended(&id);
    let plain: u64 = read(&cluster, "z_0007_000001.out").trim().parse().unwrap();
    assert_eq!(plain, (1 << 30) + 1024 + 7);
    std::fs::write(cluster.work().join("log"), "old\n").unwrap();
    let id = sbatch(&cluster, &bin, "--open-mode=append -o log", "echo new");
    cluster.until_ended(&id);
    assert_eq!(read(&cluster, "log"), "old\nnew\n");
    let id = sbatch(&cluster, &bin, "-o log", "echo newer");
    cluster.until_ended(&id);
    assert_eq!(read(&cluster, "log"), "newer\n");
}

#[test]
fn a_job_finds_its_request_in_variables() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    let lines = "echo $SLURM_GPUS_PER_TASK $SLURM_MEM_PER_CPU $SLURM_JOB_DEPENDENCY\n\
                 test -n \"$1\" || sbatch -W -o inner --export=ALL b.sh inner >/dev/null 2>&1";
    let flags = "-o out -n1 --gpus-per-task=2 --mem-per-cpu=100M -c1";
    let id = sbatch(&cluster, &bin, flags, lines);
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(read(&cluster, "out"), "2 100\n");
    assert_eq!(read(&cluster, "inner"), "\n", "a job does not pass on what describes itself");
}

#[test]
fn a_later_source_of_a_flag_replaces_an_earlier_one() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    let script = "#!/bin/sh\n#SBATCH --export=NONE -o out\necho $FRUIT\n";
    std::fs::write(cluster.work().join("b.sh"), script).unwrap();
    for (variable, flag, expected) in [
        ("NO=1", "", "\n"),
        ("NO=1", "--export=ALL", "apple\n"),
        ("SBATCH_EXPORT=ALL", "", "apple\n"),
        ("SBATCH_EXPORT=ALL", "--export=NONE", "\n"),
    ] {
        let line = format!("FRUIT=apple {variable} sbatch -W {flag} b.sh");
        shell(&cluster, &bin, &line).ok();
        assert_eq!(read(&cluster, "out"), expected, "{line}");
    }
    let line = "SLURM_GPUS=2 SLURM_JOB_NAME=variable SLURM_LABELIO=1 SLURM_NTASKS=2 \
                srun -J flag sh -c 'echo $SLURM_JOB_NAME'";
    let text = shell(&cluster, &bin, line).ok();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: flag", "1: flag"]);
    // In a job, these variables describe the job.
    let id = sbatch(&cluster, &bin, "-G2 -o step", "SLURM_GPUS=9 SLURM_LABELIO=1 srun echo a");
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(read(&cluster, "step"), "0: a\n");
}

#[test]
fn requests_that_would_do_something_else_are_refused() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let bin = installed(&cluster);
    let refused = |line: &str, code: u8, words: &[&str]| {
        shim(&cluster, &bin, line).refused(code.into(), words);
    };
    refused("srun -n1 echo A : -n2 echo B", 2, &["differ in --ntasks"]);
    refused("sbatch -n1 : -n2 b.sh", 2, &["colon", "hetjob"]);
    refused("sbatch -p nosuch --wrap=true", 6, &["nosuch", "GPOOL_SLURM_NAMES=any"]);
    refused("sbatch -C nosuch --wrap=true", 4, &["nosuch", "GPOOL_SLURM_NAMES=any"]);
    refused("sbatch --gres=h100:1 --wrap=true", 2, &["--gres=gpu:h100:1"]);
    refused("scancel 1.0", 2, &["steps", "scancel 1_3"]);
    std::fs::write(cluster.work().join("crlf.sh"), "#!/bin/sh\r\n#SBATCH -J x\r\n").unwrap();
    for line in ["sbatch crlf.sh", "gbatch crlf.sh"] {
        refused(line, 2, &["DOS line breaks", "sed"]);
    }
    for words in [&["submit", "crlf.sh"][..], &["run", "./crlf.sh"]] {
        cluster.gpool(words).refused(2, &["DOS line breaks", "sed"]);
    }
    // The first partition that exists counts.
    let id = sbatch(&cluster, &bin, "-p nosuch,default", "true");
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
}
