#!/bin/bash
#SBATCH -J pinned
#SBATCH -w lab2
#SBATCH --gpus-per-node=1
#SBATCH -t 1:00:00

python serve.py --node $SLURM_JOB_NODELIST
