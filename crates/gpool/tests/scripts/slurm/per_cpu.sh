#!/bin/bash
#SBATCH -c 2
#SBATCH --mem-per-cpu=512M
#SBATCH -t 0:30

OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK python preprocess.py
