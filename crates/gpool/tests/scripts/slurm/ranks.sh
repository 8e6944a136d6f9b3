#!/bin/bash
#SBATCH -J mpi-like
#SBATCH --ntasks-per-node=3
#SBATCH --gres=gpu:3
#SBATCH --time=12:00

srun sh -c 'python rank.py $SLURM_PROCID of $SLURM_NTASKS on $SLURM_LOCALID'
