#!/bin/bash
#SBATCH --input=/etc/hostname
#SBATCH -J reads
#SBATCH -t 5

wc -l
python x.py
