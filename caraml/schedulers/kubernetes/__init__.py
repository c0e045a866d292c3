"""Points of a sweep as Jobs of Kubernetes.

submit: makes and submits the objects; pod: runs in each pod; cluster: the scheduler, with the results of a Job; state:
the state of a Job, from the cluster's answers; checks: what the first Job needs.
"""
