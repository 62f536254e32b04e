"""The scripts of exported bundles. An export makes one train.py of a script, a model and common.py: see src/programs/export/template.ts."""
