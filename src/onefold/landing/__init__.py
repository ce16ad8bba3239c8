"""From what a source holds to immutable landed bytes: cuts, plans, landing, manifests, offset ranges."""
