#!/bin/bash
# GFLOW --project=vision
# GFLOW --gpus=1

python p.py
