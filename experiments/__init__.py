"""Studies written against movegrad's public names alone."""
