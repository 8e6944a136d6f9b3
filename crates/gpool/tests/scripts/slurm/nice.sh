#!/bin/bash
#SBATCH --nice=100
#SBATCH -J polite
#SBATCH -t 5

python sweep.py
