"""Whatever a verifier returns or raises is a result, or broken with one clear line; never an error of ours."""
