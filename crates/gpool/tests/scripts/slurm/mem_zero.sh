#!/bin/bash
#SBATCH --mem=0
#SBATCH -J allmem
#SBATCH -t 5
#SBATCH --gres=gpu:h100

python big.py
