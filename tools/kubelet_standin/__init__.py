"""A stand-in for the kubelet that really runs the commands of pods, as processes of this machine.

Used by tests on a real API server and by `make demo-kubernetes`; see `__main__` for what it does not.
"""
