#!/bin/bash
#SBATCH --job-name=one-node
#SBATCH --nodes=1
#SBATCH --gpus-per-node=2
#SBATCH --time=40

torchrun --standalone --nproc-per-node=$SLURM_GPUS_PER_NODE tune.py
