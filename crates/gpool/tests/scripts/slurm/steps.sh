#!/bin/bash
#SBATCH --job-name=pack
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=1
#SBATCH --time=5

for seed in 1 2; do
    srun --ntasks=1 --nodes=1 --exclusive python sweep.py --seed $seed &
done
wait
