"""Points of a sweep as Jobs of Kubernetes.

submit: makes and submits the objects; pod: runs in each pod; cluster: what became of a Job, and its results; state: the
state of a Job, from what Kubernetes says; checks: is everything there for the first Job?
"""
