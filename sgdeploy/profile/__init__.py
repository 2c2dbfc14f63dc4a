"""Loading a profile: YAML that remembers its places, merged and validated."""
