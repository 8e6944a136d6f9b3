#!/bin/bash
#SBATCH --export=NONE
#SBATCH -J clean
#SBATCH --time=5

echo "secret=${SECRET:-none}"
python a.py
