"""Tenders: what a run must keep, what a vendor pledges, and the points of the score."""
