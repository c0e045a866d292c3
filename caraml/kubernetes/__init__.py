"""Points of a sweep as Jobs of Kubernetes.

objects: what is submitted; submit: submits it; pod: runs in each pod; parcel: brings its files where there is no shared
storage; cluster: what became of a Job.
"""
