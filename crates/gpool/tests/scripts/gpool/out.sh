#!/bin/bash
# GPOOL --stdout out-%x-%j.txt
# GPOOL -J out

python o.py
