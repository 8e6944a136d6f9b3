#!/bin/bash
# GFLOW --gpus=1

## GFLOW --gpus=8
# The conda environment to use (default: none)
python x.py
