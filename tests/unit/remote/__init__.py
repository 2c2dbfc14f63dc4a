"""Tests of sgdeploy.remote."""
