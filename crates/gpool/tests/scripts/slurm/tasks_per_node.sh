#!/bin/bash
#SBATCH -N 1 --job-name=pairs
#SBATCH --tasks-per-node=2
#SBATCH --gpus-per-node=2

srun sh -c 'python pair.py $SLURM_PROCID of $SLURM_NTASKS'
