"""Clustering: sessions add fragments one after another and revise earlier groupings."""
