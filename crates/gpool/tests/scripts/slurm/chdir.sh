#!/bin/bash
#SBATCH -D sub
#SBATCH -J where
#SBATCH -t 5

pwd
python x.py
