#!/bin/bash
# GFLOW --gpus=1

python a.py --index $GFLOW_ARRAY_TASK_ID
