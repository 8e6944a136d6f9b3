#!/bin/bash
#SBATCH -t 90
#SBATCH --mem 500
#SBATCH --gpus=2

nvidia-smi -L
python bench.py
