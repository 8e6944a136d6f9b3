#!/bin/bash
#SBATCH --job-name=grid
#SBATCH --ntasks=3
#SBATCH --gpus-per-task=1
#SBATCH --cpus-per-task=1
#SBATCH --time=15:00

for part in 0 1 2; do
    srun --ntasks=1 --gpus-per-task=1 sh -c "python grid.py --part $part --gpus \$SLURM_GPUS_ON_NODE" &
done
wait
