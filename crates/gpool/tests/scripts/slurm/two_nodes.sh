#!/bin/bash
#SBATCH --job-name=wide
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --time=6:00:00

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun torchrun --nnodes=$SLURM_NNODES --nproc-per-node=$SLURM_GPUS_ON_NODE \
    --rdzv-backend=c10d --rdzv-endpoint="$head:29500" pretrain.py
