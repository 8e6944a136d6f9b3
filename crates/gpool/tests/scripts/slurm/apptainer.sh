#!/bin/bash
#SBATCH -J container
#SBATCH --gres=gpu:1
#SBATCH -t 1:00:00

apptainer exec --nv image.sif python run.py
