#!/bin/bash
#SBATCH --job-name=lit
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=2
#SBATCH --gres=gpu:2
#SBATCH --time=0:10:00
#SBATCH --signal=SIGUSR1@90

srun python train.py --devices $SLURM_NTASKS_PER_NODE
