"""Points of a sweep as Jobs of Kubernetes, on a claim that the pods share with this machine.

submit: makes and submits the objects; cluster: the scheduler, with the results of a Job; state: the state of a Job,
from the cluster's answers. Each pod runs job.sh, for its node's part of the runs.
"""
