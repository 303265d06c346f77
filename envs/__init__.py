"""Environments as arrays: rolled out by compiled code, solved exactly, registered with Gymnasium."""
