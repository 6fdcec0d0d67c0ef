"""The gate that users run against samplers: suites of cases."""
