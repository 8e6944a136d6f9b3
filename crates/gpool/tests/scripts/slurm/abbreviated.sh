#!/bin/bash
#SBATCH --job=brief --out=brief-%j.txt
#SBATCH --gres gpu:1 --constrain=h100
#SBATCH --time 0-1

python brief.py
