"""What the suites of the catalogue hold, what they see, and verifiers of every rule on them."""
