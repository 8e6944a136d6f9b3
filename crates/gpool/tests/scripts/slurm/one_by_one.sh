#!/bin/bash
#SBATCH --job-name=shards
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --exclusive
#SBATCH --time=3:00:00

for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    srun --nodes=1 --ntasks=1 --gres=gpu:4 --exclusive -w "$node" python shard.py --of "$node" &
done
wait
