"""Workers and ranks on Ray, on one machine or on the hosts of a cluster."""
