#!/bin/bash
# GFLOW --gpus=2

IFS=, read -ra devices <<< "$CUDA_VISIBLE_DEVICES"
echo "devices ${#devices[@]}"
python c.py
