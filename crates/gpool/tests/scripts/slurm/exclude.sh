#!/bin/bash
#SBATCH -J avoid
#SBATCH --exclude=lab2,mig1
#SBATCH --gres=gpu:1 -t 10

python probe.py --node $SLURM_JOB_NODELIST
