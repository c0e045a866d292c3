"""Points of a sweep as Jobs of Kubernetes, on a claim that the pods share with this machine."""
