#!/bin/bash
#SBATCH -J r-fit
#SBATCH -n 1
#SBATCH -N 1
#SBATCH --mem=512M
#SBATCH -t 15:00

module load R
Rscript fit.R --seed 1
