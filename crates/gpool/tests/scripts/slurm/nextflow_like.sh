#!/bin/bash
#SBATCH -J nf-ALIGN_(s1)
#SBATCH -o .command.log
#SBATCH --no-requeue
#SBATCH -c 1
#SBATCH -t 01:00:00
#SBATCH --mem 1024M
#SBATCH --signal B:USR2@30

NXF_TASK=align
set -u
bwa mem -t 1 ref.fa reads.fq > out.sam
cat out.sam
