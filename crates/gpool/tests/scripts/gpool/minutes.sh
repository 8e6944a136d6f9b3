#!/bin/bash
# GPOOL --time 90

python m.py
