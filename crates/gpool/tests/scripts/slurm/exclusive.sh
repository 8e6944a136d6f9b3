#!/bin/bash
#SBATCH -J bench
#SBATCH --nodes=1 --exclusive
#SBATCH --gpus-per-node=4
#SBATCH --time=30

srun --ntasks=1 python measure.py --gpus $SLURM_GPUS_ON_NODE
