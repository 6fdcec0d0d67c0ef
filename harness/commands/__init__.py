"""Commands of ``chitree``, a file each."""
