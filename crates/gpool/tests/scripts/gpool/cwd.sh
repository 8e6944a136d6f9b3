#!/bin/bash
# GPOOL --cwd sub

pwd
