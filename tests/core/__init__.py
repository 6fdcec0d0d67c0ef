"""Tests of trees, filters, laws, rules, counts, requests, groups and results."""
