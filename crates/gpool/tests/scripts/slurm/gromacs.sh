#!/bin/bash
#SBATCH --job-name gmx
#SBATCH --gpus 1
#SBATCH --cpus-per-task 2
#SBATCH --time 0-06:00

module load gromacs
srun gmx mdrun -ntomp $SLURM_CPUS_PER_TASK -deffnm prod -nb gpu
