#!/bin/bash
# GPOOL --compat gflow

python s.py $GFLOW_ARRAY_TASK_ID
