"""A right problem file to make wrong."""

GOOD = """\
name: tiny
title: A tiny problem
documents:
  kind: json
  path: docs.json
models:
  - full_id: org/base
    family: one
    licence: MIT
    source: {kind: local, path: base}
  - {full_id: org/changed, base: org/base, interventions: [{kind: rope, theta: 5000}]}
probes:
  - {kind: full}
  - {kind: window, name: window_8, context: 8, stride: 4}
target: {kind: file, path: target.json}
"""
