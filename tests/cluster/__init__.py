"""Tests on hosts made of Linux namespaces."""
