#!/bin/bash
# GFLOW --gpus 1
# GFLOW --time 1:00:00

python s.py
