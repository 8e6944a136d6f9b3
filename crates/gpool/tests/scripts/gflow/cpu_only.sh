#!/bin/bash
# GFLOW --gpus=0
# GFLOW --time=15

Rscript plot.R
