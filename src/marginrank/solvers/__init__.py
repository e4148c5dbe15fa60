"""Minimise ½‖θ‖² + C·risk(θ), with a certificate; nothing here knows of ranking."""
