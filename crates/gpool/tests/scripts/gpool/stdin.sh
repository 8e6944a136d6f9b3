#!/bin/bash
# GPOOL --stdin /etc/hostname

wc -l
