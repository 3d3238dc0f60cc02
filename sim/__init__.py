"""The simulator: the real server under a seed, on a network, a disk and a clock of paper, and judges of what happened.

Nothing here is imported by the service. The parts that judge (`checkers/`) share no code with the parts they judge.
"""
