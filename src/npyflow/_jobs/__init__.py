"""Whole jobs: on flows, and on files before there is a flow."""
