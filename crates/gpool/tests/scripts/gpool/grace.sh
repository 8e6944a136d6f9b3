#!/bin/bash
# GPOOL --grace 2m --time 1h30m

trap 'python save.py' TERM
python g.py
